#include "truth.hpp"

#include "image_batch.hpp"
#include <maxbatch/search/errors.hpp>

#include <ATen/ATen.h>

#include <algorithm>
#include <string>

namespace maxbatch::models {
namespace {

void check(DetectionTarget const& target, LabelRange range, std::size_t image) {
  auto const refuse = [&](std::string const& what) {
    throw InvalidArgument("the target of image " + std::to_string(image) + " " + what);
  };
  auto const& boxes = target.boxes;
  auto const& labels = target.labels;
  if (!boxes.defined() || !labels.defined()) {
    refuse("has no boxes or no labels: an image without objects has [0, 4] and [0]");
  }
  if (boxes.dim() != 2 || boxes.size(1) != 4 || !boxes.is_floating_point()) {
    refuse("has boxes " + c10::str(boxes.sizes()) + " of " + c10::toString(boxes.scalar_type()) +
           ": they are [G, 4] of floating-point numbers");
  }
  if (labels.dim() != 1 || labels.size(0) != boxes.size(0) || labels.scalar_type() != at::kLong) {
    refuse("has labels " + c10::str(labels.sizes()) + " of " + c10::toString(labels.scalar_type()) + " for boxes " +
           c10::str(boxes.sizes()) + ": they are one int64 for each box");
  }
  if (boxes.is_cpu() && boxes.size(0) > 0) {
    auto const is_box = (boxes.narrow(1, 2, 2) > boxes.narrow(1, 0, 2)).all(1);
    if (!is_box.all().item<bool>()) {
      auto const first = is_box.logical_not().nonzero().select(0, 0).item<std::int64_t>();
      auto const at = [&](std::int64_t i) { return c10::str(boxes[first][i].item<double>()); };
      refuse("has box " + std::to_string(first) + " (" + at(0) + ", " + at(1) + ", " + at(2) + ", " + at(3) +
             "): boxes are x1, y1, x2, y2 with x1 < x2 and y1 < y2");
    }
  }
  if (labels.is_cpu() && labels.size(0) > 0) {
    auto const smallest = labels.min().item<std::int64_t>();
    auto const largest = labels.max().item<std::int64_t>();
    if (smallest < range.first || largest > range.last) {
      refuse("has labels from " + std::to_string(smallest) + " to " + std::to_string(largest) + ": the model knows " +
             std::to_string(range.first) + " to " + std::to_string(range.last));
    }
  }
}

}  // namespace

Truth prepare_truth(std::vector<DetectionTarget> const& targets, std::vector<ImageSize> const& from,
                    std::vector<ImageSize> const& to, LabelRange range, at::Tensor const& images) {
  if (targets.size() != from.size()) {
    throw InvalidArgument("a detector trains towards one target for each image, and was given " +
                          std::to_string(targets.size()) + " for " + std::to_string(from.size()) + " images");
  }
  auto const device = images.device();
  auto const type = images.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
  std::vector<at::Tensor> boxes;
  std::vector<at::Tensor> labels;
  std::int64_t most = 0;
  for (std::size_t i = 0; i < targets.size(); ++i) {
    check(targets[i], range, i);
    boxes.push_back(resize_boxes(targets[i].boxes.to(type), from[i], to[i]));
    labels.push_back(targets[i].labels.to(device, /*non_blocking=*/true));
    most = std::max(most, boxes.back().size(0));
  }
  Truth truth;
  truth.boxes = TruthBoxes::of(boxes, device, type);
  labels.push_back(at::zeros({1}, at::device(device).dtype(at::kLong)));
  truth.labels = at::cat(labels);

  auto const none = truth.labels.size(0) - 1;
  auto const count = static_cast<std::int64_t>(targets.size());
  auto const padded = at::full({count, most}, none, at::kLong);
  std::int64_t start = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    auto const objects = truth.boxes.counts[static_cast<std::size_t>(i)];
    padded.select(0, i).narrow(0, 0, objects).copy_(at::arange(start, start + objects, at::kLong));
    start += objects;
  }
  truth.padded = padded.to(device, /*non_blocking=*/true);
  return truth;
}

}  // namespace maxbatch::models
