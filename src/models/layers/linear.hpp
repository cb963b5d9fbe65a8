#pragma once

#include <torch/nn/module.h>

#include <cstdint>

namespace maxbatch::models {

/// A linear layer that starts as torch.nn.Linear does, made on its device at once.
struct Linear : torch::nn::Module {
  Linear(std::int64_t in, std::int64_t out, c10::Device device);
  at::Tensor forward(at::Tensor const& x) const;

  at::Tensor weight;  ///< [out, in]
  at::Tensor bias;    ///< [out]
};

}  // namespace maxbatch::models
