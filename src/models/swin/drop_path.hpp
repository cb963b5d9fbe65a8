#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <vector>

namespace maxbatch::models {

/// Which images keep which residual branches in one training step: factors [N, 1, 1, 1] of 0 or 1 / keep probability,
/// drawn for all branches at once (timm draws per branch: two small kernels each).
/// keep: [branches, 1], the probability that an image keeps a branch.  Synchronises: no.
std::vector<at::Tensor> draw_drop_path(at::Tensor const& keep, std::int64_t batch_size, at::ScalarType dtype);

/// x + branch * factor; an undefined factor is 1. Where nothing records gradients, `branch` may be overwritten.
at::Tensor add_branch(at::Tensor const& x, at::Tensor branch, at::Tensor const& factor);

}  // namespace maxbatch::models
