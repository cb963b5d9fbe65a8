#include "suppression.hpp"
#include <maxbatch/models/detection_operators.hpp>
#include <maxbatch/search/errors.hpp>

#include <torch/torch.h>

#include <string>

namespace maxbatch::models {
namespace {

constexpr std::int64_t kFewBoxesOnCpu = 1000;
constexpr std::int64_t kFewBoxesOnCuda = 25'000;

void check(at::Tensor const& boxes, at::Tensor const& scores) {
  auto const refuse = [](std::string const& what) { throw InvalidArgument("non-maximum suppression takes " + what); };
  if (boxes.dim() != 2 || boxes.size(1) != 4 || !boxes.is_floating_point()) {
    refuse("boxes [K, 4] of floating-point numbers, and was given " + c10::str(boxes.sizes()) + " of " +
           c10::toString(boxes.scalar_type()));
  }
  if (scores.dim() != 1 || scores.size(0) != boxes.size(0)) {
    refuse("a score for each box, and was given scores " + c10::str(scores.sizes()) + " for boxes " +
           c10::str(boxes.sizes()));
  }
  if (scores.device() != boxes.device()) {
    refuse("boxes and scores on one device, and was given " + boxes.device().str() + " and " + scores.device().str());
  }
}

at::Tensor in_computed_type(at::Tensor const& boxes) {
  return boxes.scalar_type() == at::kDouble ? boxes : boxes.to(at::kFloat);
}

/// segments: [K] int32, in [0, segment_count).
at::Tensor keep_best(at::Tensor const& boxes, at::Tensor const& scores, at::Tensor const& segments,
                     std::int64_t segment_count, double iou_threshold) {
  auto const order = at::argsort(scores, /*stable=*/true, /*dim=*/0, /*descending=*/true);
  auto const keep = suppress(in_computed_type(boxes).unsqueeze(0), order.unsqueeze(0), segments.unsqueeze(0),
                             segment_count, iou_threshold);
  return order.masked_select(keep.squeeze(0));
}

}  // namespace

at::Tensor nms(at::Tensor const& boxes, at::Tensor const& scores, double iou_threshold) {
  check(boxes, scores);
  at::NoGradGuard const no_gradients;
  return keep_best(boxes, scores, at::zeros({boxes.size(0)}, boxes.options().dtype(at::kInt)), 1, iou_threshold);
}

at::Tensor batched_nms(at::Tensor const& boxes, at::Tensor const& scores, at::Tensor const& classes,
                       double iou_threshold) {
  check(boxes, scores);
  if (classes.sizes() != scores.sizes() || classes.device() != boxes.device() ||
      !at::isIntegralType(classes.scalar_type(), /*includeBool=*/false)) {
    throw InvalidArgument(
        "batched non-maximum suppression takes a whole number for each box, on the boxes' device, and "
        "was given classes " +
        c10::str(classes.sizes()) + " of " + c10::toString(classes.scalar_type()) + " on " + classes.device().str() +
        " for boxes " + c10::str(boxes.sizes()));
  }
  at::NoGradGuard const no_gradients;
  if (boxes.size(0) == 0) { return at::empty({0}, boxes.options().dtype(at::kLong)); }
  if (boxes.size(0) <= (boxes.is_cuda() ? kFewBoxesOnCuda : kFewBoxesOnCpu)) {
    // As torchvision moves them: results depend on the rounding. Boxes with negative coordinates may meet others.
    auto const moved = boxes + (classes.to(boxes.scalar_type()) * (boxes.max() + 1)).unsqueeze(1);
    return nms(moved, scores, iou_threshold);
  }
  auto const [distinct, numbers] = at::_unique(classes, /*sorted=*/true, /*return_inverse=*/true);
  return keep_best(boxes, scores, numbers.to(at::kInt), distinct.size(0), iou_threshold);
}

}  // namespace maxbatch::models
