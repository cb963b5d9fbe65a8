#include "region_proposals.hpp"

#include "../layers/nested.hpp"
#include "class_suppression.hpp"
#include "join_levels.hpp"
#include "sampler.hpp"
#include "suppression.hpp"

#include <torch/torch.h>

#include <algorithm>

namespace maxbatch::models {
namespace {

constexpr double kSmallestSide = 1e-3;  // of a proposal
constexpr double kBeta = 1.0 / 9;

/// Side of the square anchors of each level; each comes in three ratios.
std::vector<std::vector<std::int64_t>> const kAnchorSides = {{32}, {64}, {128}, {256}, {512}};

std::shared_ptr<Convolution> head_convolution(std::int64_t in, std::int64_t out, std::int64_t side,
                                              c10::Device device) {
  auto made = std::make_shared<Convolution>(Convolution::Shape{in, out, side, 1, /*bias=*/true}, device);
  at::NoGradGuard const no_gradients;
  made->weight.normal_(0, 0.01);
  return made;
}

/// The anchors of the largest logits, level by level: [N, K].
at::Tensor best_of_levels(at::Tensor const& objectness, std::vector<std::int64_t> const& level_sizes, std::int64_t most,
                          std::vector<std::int64_t>& taken) {
  std::vector<at::Tensor> parts;
  std::int64_t offset = 0;
  for (auto const size : level_sizes) {
    taken.push_back(std::min(most, size));
    parts.push_back(std::get<1>(objectness.narrow(1, offset, size).topk(taken.back(), 1)) + offset);
    offset += size;
  }
  return at::cat(parts, 1);
}

}  // namespace

RegionProposalNetwork::RegionProposalNetwork(std::int64_t channels, c10::Device device)
    : grid(kAnchorSides, {0.5, 1.0, 2.0}) {
  conv = nested(*this, {"head", "conv", "0"}, "0", head_convolution(channels, channels, 3, device));
  cls_logits = nested(*this, {"head"}, "cls_logits", head_convolution(channels, grid.per_pixel(), 1, device));
  bbox_pred = nested(*this, {"head"}, "bbox_pred", head_convolution(channels, 4 * grid.per_pixel(), 1, device));
}

AnchorPredictions RegionProposalNetwork::predict(std::vector<at::Tensor> const& maps, ImageSize image) const {
  AnchorPredictions predictions;
  std::vector<at::Tensor> logits;
  std::vector<at::Tensor> codes;
  for (auto const& map : maps) {
    auto const hidden = conv->forward(map).relu_();
    logits.push_back(cls_logits->forward(hidden));
    codes.push_back(bbox_pred->forward(hidden));
    predictions.level_sizes.push_back(map.size(2) * map.size(3) * grid.per_pixel());
  }
  predictions.objectness = join_levels(logits, 1).squeeze(-1);
  predictions.codes = join_levels(codes, 4);
  predictions.anchors = grid.over(maps, image, predictions.codes.scalar_type());
  return predictions;
}

Proposals propose(AnchorPredictions const& predictions, at::Tensor const& limits, ProposalOptions const& options) {
  at::NoGradGuard const no_gradients;
  auto const objectness = predictions.objectness.detach();
  auto const images = objectness.size(0);
  std::vector<std::int64_t> taken;
  auto const best = best_of_levels(objectness, predictions.level_sizes, options.before_nms, taken);
  auto const count = best.size(1);

  auto const anchors = predictions.anchors.index_select(0, best.flatten()).view({images, count, 4});
  auto const boxes = clip_boxes(BoxCoder{}.decode(gather_boxes(predictions.codes.detach(), best), anchors), limits);
  auto const scores = objectness.gather(1, best).sigmoid_();
  auto const is_candidate = is_large(boxes, kSmallestSide).logical_and_(scores >= options.score_threshold);

  auto const levels = at::empty({count}, best.options().dtype(at::kInt));
  std::int64_t offset = 0;
  for (std::size_t level = 0; level < taken.size(); offset += taken[level++]) {
    levels.narrow(0, offset, taken[level]).fill_(static_cast<std::int64_t>(level));
  }
  auto const compared = moved_as_torchvision_does(boxes, levels.unsqueeze(0).expand({images, count}), is_candidate);
  auto const segments = at::where(is_candidate, levels, -1);
  // No score is below 0: what is no candidate goes to the end.
  auto const order =
      at::argsort(scores.masked_fill(is_candidate.logical_not(), -1), /*stable=*/true, 1, /*descending=*/true);
  auto const keep = suppress(compared, order, segments, static_cast<std::int64_t>(taken.size()), options.nms_threshold);

  // The first that are kept move to the front; all others go to one place behind the end.
  auto const most = std::min(options.after_nms, count);
  auto const rank = keep.cumsum(1);  // from 1
  auto const place = at::where(keep.logical_and(rank <= most), rank - 1, most);
  auto const first = at::zeros({images, most + 1}, order.options()).scatter_(1, place, order).narrow(1, 0, most);
  Proposals proposals;
  proposals.boxes = gather_boxes(boxes, first);
  proposals.is_there = at::arange(most, order.options()) < rank.narrow(1, count - 1, 1);
  return proposals;
}

ProposalLosses proposal_losses(AnchorPredictions const& predictions, Truth const& truth,
                               ProposalLossOptions const& options) {
  MatchThresholds thresholds;
  thresholds.low = options.no_match_threshold;
  thresholds.high = options.match_threshold;
  thresholds.low_quality_matches = true;
  auto const matches = match_boxes(truth.boxes, predictions.anchors, thresholds);
  static_assert(kBelowThreshold == -1 && kBetweenThresholds == -2, "labels are made of matches by arithmetic");
  auto const labels = (matches + 1).clamp_(-1, 1);  // 1 matched, 0 background, -1 neither
  auto const sample = sample_balanced(labels, options.samples, options.positive_share);
  auto const used = sample.is_used.sum();

  // Slots beyond the positives hold negatives, or nothing.
  auto const slots = sample.index.size(1);
  auto const targets =
      at::constant_pad_nd(sample.is_positive, {0, slots - sample.most_positives}).to(predictions.objectness.dtype());
  auto const losses = at::binary_cross_entropy_with_logits(predictions.objectness.gather(1, sample.index), targets, {},
                                                           {}, at::Reduction::None);
  auto const positives = sample.index.narrow(1, 0, sample.most_positives);
  auto const of_truth = matches.gather(1, positives).clamp_min_(0);
  auto const true_boxes = truth.boxes.boxes.index_select(0, of_truth.flatten()).view({of_truth.size(0), -1, 4});
  auto const anchors = predictions.anchors.index_select(0, positives.flatten()).view({of_truth.size(0), -1, 4});
  return {losses.masked_fill(sample.is_used.logical_not(), 0).sum() / used,
          smooth_l1_sum(gather_boxes(predictions.codes, positives), BoxCoder{}.encode(true_boxes, anchors),
                        sample.is_positive) /
              used};
}

at::Tensor smooth_l1_sum(at::Tensor const& codes, at::Tensor const& targets, at::Tensor const& is_used) {
  auto const unused = is_used.logical_not().unsqueeze(-1);
  return at::smooth_l1_loss(codes, targets.masked_fill(unused, 0), at::Reduction::None, kBeta)
      .masked_fill(unused, 0)
      .sum();
}

}  // namespace maxbatch::models
