#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace maxbatch::models {

/// Some of the candidates of each image, drawn at random, in as many slots whatever there is: positives, then negatives,
/// then slots that hold nothing.
struct Sample {
  at::Tensor index;        ///< [N, slots] int64, into the candidates
  at::Tensor is_used;      ///< [N, slots] bool: the slot holds a candidate
  at::Tensor is_positive;  ///< [N, most_positives] bool: of the first slots, which no other positive is behind
  std::int64_t most_positives = 0;
};

/// Balanced sampling: `size` candidates of each image, of which at most the given share is positive, drawn without
/// replacement; negatives fill what positives leave. The same distribution as torchvision's, without its question how many
/// there are of each.
///
/// labels: [N, M] int64: positive, 0 negative, below 0 neither. Draws [N, M] numbers from the device's generator.
/// Slots: min(size, M).  Synchronises: no.
Sample sample_balanced(at::Tensor const& labels, std::int64_t size, double positive_share);

}  // namespace maxbatch::models
