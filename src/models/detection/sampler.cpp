#include "sampler.hpp"

#include <ATen/ATen.h>

#include <algorithm>

namespace maxbatch::models {

Sample sample_balanced(at::Tensor const& labels, std::int64_t size, double positive_share) {
  auto const images = labels.size(0);
  auto const candidates = labels.size(1);
  auto const slots = std::min(size, candidates);
  Sample sample;
  sample.most_positives = std::min(static_cast<std::int64_t>(static_cast<double>(size) * positive_share), slots);

  // Those with the smallest random keys: each subset is as likely as any other. Others get a key above all of them.
  constexpr double kNoCandidate = 2;
  auto const keys = at::rand({images, candidates}, labels.options().dtype(at::kFloat));
  auto const smallest = [&](at::Tensor const& wanted, std::int64_t count) {
    return at::topk(keys.masked_fill(wanted.logical_not(), kNoCandidate), count, /*dim=*/1, /*largest=*/false);
  };
  auto const [positive_keys, positives] = smallest(labels > 0, sample.most_positives);
  auto const [negative_keys, negatives] = smallest(labels == 0, slots);
  sample.is_positive = positive_keys < kNoCandidate;
  auto const positive_count = sample.is_positive.sum(1, /*keepdim=*/true);  // [N, 1]

  auto const slot = at::arange(slots, labels.options());
  auto const holds_positive = slot < positive_count;
  auto const nth_negative = (slot - positive_count).clamp_min_(0);
  sample.index = at::where(holds_positive, at::constant_pad_nd(positives, {0, slots - sample.most_positives}),
                           negatives.gather(1, nth_negative));
  sample.is_used = holds_positive.logical_or(negative_keys.gather(1, nth_negative) < kNoCandidate);
  return sample;
}

}  // namespace maxbatch::models
