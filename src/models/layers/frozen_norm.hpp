#pragma once

#include <ATen/core/Tensor.h>

namespace maxbatch::models {

/// Numbers of each channel [C] that never change.
struct FrozenStatistics {
  at::Tensor weight;
  at::Tensor bias;
  at::Tensor mean;
  at::Tensor variance;
  double epsilon = 1e-5;
};

/// A norm whose statistics are frozen, what is added to it, and ReLU, in one kernel on CUDA and in the place of `x`:
/// act(x * scale + shift + added), where scale is weight / sqrt(variance + epsilon) and shift is bias - mean * scale.
/// The backward pass keeps the result and makes each gradient in one kernel.
///
/// x: [N, C, H, W], overwritten; nothing else may need it.  added: of the same shape, or undefined.  Gradients go to both.
/// The arithmetic is in single precision where x has less.  Synchronises: no.
at::Tensor frozen_norm(at::Tensor const& x, at::Tensor const& added, FrozenStatistics const& statistics, bool relu);

}  // namespace maxbatch::models
