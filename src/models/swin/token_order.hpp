#pragma once

#include <ATen/core/Tensor.h>

namespace maxbatch::models {

/// tokens [N, T, C] with its tokens in the order given, a permutation of [0, T) that comes with its inverse: one gather
/// forward and one backward, where torch::roll takes a copy per dimension.
at::Tensor reorder_tokens(at::Tensor const& tokens, at::Tensor const& order, at::Tensor const& inverse);

}  // namespace maxbatch::models
