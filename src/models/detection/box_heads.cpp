#include "box_heads.hpp"

#include "../layers/nested.hpp"
#include "class_suppression.hpp"
#include "roi_align.hpp"
#include "sampler.hpp"

#include <torch/torch.h>

namespace maxbatch::models {
namespace {

constexpr std::int64_t kCells = 7;  // of a pooled region, each way
constexpr std::int64_t kWidth = 1024;
constexpr double kSmallestSide = 1e-2;   // of a detection
constexpr std::int64_t kIgnored = -100;  // label that a loss ignores

/// Boxes [N, P, 4] as regions [N * P, 5] with the image's index.
at::Tensor as_regions(at::Tensor const& boxes) {
  auto const images = boxes.size(0);
  auto const index = at::arange(images, boxes.options()).view({images, 1, 1}).expand({images, boxes.size(1), 1});
  return at::cat({index, boxes}, 2).view({-1, 5});
}

}  // namespace

BoxHeads::BoxHeads(std::int64_t channels, std::int64_t classes_, BoxCoder const& coder_, c10::Device device)
    : classes(classes_), coder(coder_) {
  fc6 = nested(*this, {"box_head"}, "fc6", std::make_shared<Linear>(channels * kCells * kCells, kWidth, device));
  fc7 = nested(*this, {"box_head"}, "fc7", std::make_shared<Linear>(kWidth, kWidth, device));
  cls_score = nested(*this, {"box_predictor"}, "cls_score", std::make_shared<Linear>(kWidth, classes, device));
  bbox_pred = nested(*this, {"box_predictor"}, "bbox_pred", std::make_shared<Linear>(kWidth, 4 * classes, device));
}

std::int64_t BoxHeads::parameter_count(std::int64_t channels, std::int64_t classes) {
  auto const linear = [](std::int64_t in, std::int64_t out) { return in * out + out; };
  return linear(channels * kCells * kCells, kWidth) + linear(kWidth, kWidth) + linear(kWidth, 5 * classes);
}

BoxPredictions BoxHeads::predict(std::vector<at::Tensor> const& maps, at::Tensor const& boxes,
                                 std::int64_t largest_image_height) const {
  auto const pooled =
      pyramid_roi_align(maps, as_regions(boxes), scales_of(maps, largest_image_height), {kCells, kCells, 2, false});
  auto const hidden = fc7->forward(fc6->forward(pooled.flatten(1)).relu_()).relu_();
  // In single precision from here on, also under autocast.
  auto const type = hidden.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
  return {cls_score->forward(hidden).to(type), bbox_pred->forward(hidden).to(type).view({-1, classes, 4})};
}

BoxLosses BoxHeads::losses(std::vector<at::Tensor> const& maps, Proposals const& proposals, Truth const& truth,
                           std::int64_t largest_image_height, BoxSampleOptions const& options) const {
  auto const images = proposals.boxes.size(0);
  Sample sample;
  at::Tensor boxes;    // [N, slots, 4]
  at::Tensor labels;   // [N, slots]
  at::Tensor matched;  // [N, most_positives, 4]
  {
    at::NoGradGuard const no_gradients;
    // True boxes are proposals, too.
    auto const true_boxes = truth.boxes.boxes.index_select(0, truth.padded.flatten()).view({images, -1, 4});
    auto const none = truth.labels.size(0) - 1;
    auto const candidates = at::cat({proposals.boxes, true_boxes}, 1);
    auto const is_there = at::cat({proposals.is_there, truth.padded != none}, 1);
    MatchThresholds thresholds;
    thresholds.low = options.no_match_threshold;
    thresholds.high = options.match_threshold;
    auto const matches = match_boxes(truth.boxes, candidates, thresholds);
    auto const matched_truth = matches.clamp_min(0);
    auto const of_match = truth.labels.index_select(0, matched_truth.flatten()).view(matches.sizes());
    // Background, between the thresholds, or not there at all: the latter two are not sampled.
    auto const all_labels = at::where(matches >= 0, of_match, matches - kBelowThreshold)
                                .masked_fill_(is_there.logical_not(), kBetweenThresholds);
    sample = sample_balanced(all_labels, options.samples, options.positive_share);
    boxes = gather_boxes(candidates, sample.index);
    labels = all_labels.gather(1, sample.index).masked_fill_(sample.is_used.logical_not(), kIgnored);
    auto const positives = matched_truth.gather(1, sample.index.narrow(1, 0, sample.most_positives));
    matched = truth.boxes.boxes.index_select(0, positives.flatten()).view({images, -1, 4});
  }
  auto const predictions = predict(maps, boxes, largest_image_height);

  auto const first = [&](at::Tensor const& x) { return x.narrow(1, 0, sample.most_positives); };
  auto const targets = coder.encode(matched, first(boxes));
  auto const of_class = first(labels).clamp_min(0).view({images, -1, 1, 1}).expand({-1, -1, 1, 4});
  auto const codes = first(predictions.codes.view({images, -1, classes, 4})).gather(2, of_class).squeeze(2);
  return {at::cross_entropy_loss(predictions.logits, labels.flatten(), {}, at::Reduction::Mean, kIgnored),
          smooth_l1_sum(codes, targets, sample.is_positive) / sample.is_used.sum()};
}

std::vector<Detections> BoxHeads::detect(std::vector<at::Tensor> const& maps, Proposals const& proposals,
                                         at::Tensor const& limits, std::int64_t largest_image_height,
                                         DetectionOptions const& options) const {
  auto const images = proposals.boxes.size(0);
  auto const count = proposals.boxes.size(1);
  auto const predictions = predict(maps, proposals.boxes, largest_image_height);
  auto const without_background = [&](at::Tensor const& x) { return x.narrow(2, 1, classes - 1); };
  auto const scores = without_background(at::softmax(predictions.logits, -1).view({images, count, classes}));
  auto const boxes = clip_boxes(without_background(coder.decode(predictions.codes.view({images, count, classes, 4}),
                                                                proposals.boxes.unsqueeze(2))),
                                limits);
  auto const is_candidate = (scores > options.score_threshold)
                                .logical_and_(is_large(boxes, kSmallestSide))
                                .logical_and_(proposals.is_there.unsqueeze(-1));

  auto const labels = at::arange(1, classes, proposals.boxes.options()).expand({images, count, classes - 1});
  auto const compared = moved_as_torchvision_does(boxes.reshape({images, -1, 4}), labels.reshape({images, -1}),
                                                  is_candidate.view({images, -1}));
  auto const found = is_candidate.nonzero();  // [K, 3]
  auto const place = found.select(1, 0).mul(count).add_(found.select(1, 1)).mul_(classes - 1).add_(found.select(1, 2));
  ClassCandidates candidates;
  candidates.boxes = boxes.reshape({-1, 4}).index_select(0, place);
  candidates.compared = compared.view({-1, 4}).index_select(0, place);
  candidates.scores = scores.reshape({-1}).index_select(0, place);
  candidates.labels = found.select(1, 2) + 1;
  candidates.images = found.select(1, 0);
  candidates.classes = classes;
  candidates.image_count = images;
  return best_detections(candidates, options.nms_threshold, options.per_image);
}

}  // namespace maxbatch::models
