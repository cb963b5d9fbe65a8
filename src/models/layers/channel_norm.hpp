#pragma once

#include <maxbatch/models/resnet.hpp>

#include <torch/nn/module.h>

#include <cstdint>

namespace maxbatch::models {

/// Batch norm, trained or frozen, with torchvision's names, and what comes after it in a residual block.
/// `x` is a convolution's output that nothing else needs: it may be overwritten.
struct ChannelNorm : torch::nn::Module {
  ChannelNorm(NormKind kind, std::int64_t channels, double epsilon, c10::Device device);

  at::Tensor forward(at::Tensor const& x) const;
  at::Tensor forward_relu(at::Tensor const& x) const;
  /// relu(norm(x) + added)
  at::Tensor forward_add_relu(at::Tensor const& x, at::Tensor const& added) const;

  NormKind kind;
  double epsilon;
  at::Tensor weight;               ///< [C]; a buffer where the norm is frozen, as are the others
  at::Tensor bias;                 ///< [C]
  at::Tensor running_mean;         ///< [C]
  at::Tensor running_var;          ///< [C]
  at::Tensor num_batches_tracked;  ///< a number, counted by whoever runs the model; undefined where the norm is frozen

 private:
  at::Tensor frozen(at::Tensor const& x, at::Tensor const& added, bool relu) const;
};

}  // namespace maxbatch::models
