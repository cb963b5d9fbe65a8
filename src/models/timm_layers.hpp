#pragma once

#include <torch/torch.h>

#include <cstdint>

namespace maxbatch::models {

/// Linear and layer norm as timm initialises them, made on their device at once: torch::nn's are made and drawn on the
/// CPU first, which takes seconds for the large models.
struct TimmLinear : torch::nn::Module {
  TimmLinear(std::int64_t in, std::int64_t out, bool with_bias, c10::Device device) {
    weight = register_parameter("weight", at::empty({out, in}, device).normal_(0, 0.02));
    if (with_bias) { bias = register_parameter("bias", at::zeros({out}, device)); }
  }
  at::Tensor forward(at::Tensor const& x) const { return at::linear(x, weight, bias); }

  at::Tensor weight;  ///< [out, in]
  at::Tensor bias;    ///< [out], or undefined
};

struct TimmNorm : torch::nn::Module {
  explicit TimmNorm(std::int64_t channels, c10::Device device, double epsilon_ = 1e-5) : epsilon(epsilon_) {
    weight = register_parameter("weight", at::ones({channels}, device));
    bias = register_parameter("bias", at::zeros({channels}, device));
  }
  at::Tensor forward(at::Tensor const& x) const { return at::layer_norm(x, weight.sizes(), weight, bias, epsilon); }

  double epsilon;
  at::Tensor weight;
  at::Tensor bias;
};

}  // namespace maxbatch::models
