#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

namespace maxbatch::models {

/// What a head says of each anchor, level after level: maps [N, anchors * values, H_i, W_i] to one tensor
/// [N, sum of H_i * W_i * anchors, values], in one copy; in at least single precision, also where maps have less.
at::Tensor join_levels(std::vector<at::Tensor> const& maps, std::int64_t values);

}  // namespace maxbatch::models
