#pragma once

#include <torch/nn/module.h>

#include <cstdint>

namespace maxbatch::models {

/// A square convolution, made on its device at once; whoever makes one draws its weights. torch::nn::Conv2d is made and
/// drawn on the CPU first.
struct Convolution : torch::nn::Module {
  struct Shape {
    std::int64_t in = 0;
    std::int64_t out = 0;
    std::int64_t side = 1;
    std::int64_t stride = 1;
    bool bias = false;
  };

  Convolution(Shape const& shape, c10::Device device);

  /// [N, in, H, W] to [N, out, ⌈H / stride⌉, ⌈W / stride⌉]: padded by half of the kernel's side.
  at::Tensor forward(at::Tensor const& x) const;

  std::int64_t stride;
  std::int64_t padding;
  at::Tensor weight;  ///< [out, in, side, side], not yet drawn
  at::Tensor bias;    ///< [out], zeros; or undefined
};

/// Fan-out initialisation of arXiv:1502.01852 for what a ReLU follows, as torchvision's ResNets start.
void draw_for_relu(Convolution& convolution);

}  // namespace maxbatch::models
