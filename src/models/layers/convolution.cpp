#include "convolution.hpp"

#include <torch/torch.h>

#include <cmath>

namespace maxbatch::models {

Convolution::Convolution(Shape const& shape, c10::Device device) : stride(shape.stride), padding(shape.side / 2) {
  weight = register_parameter("weight", at::empty({shape.out, shape.in, shape.side, shape.side}, device));
  if (shape.bias) { bias = register_parameter("bias", at::zeros({shape.out}, device)); }
}

at::Tensor Convolution::forward(at::Tensor const& x) const {
  return at::conv2d(x, weight, bias, {stride, stride}, {padding, padding});
}

void draw_for_relu(Convolution& convolution) {
  at::NoGradGuard const no_gradients;
  auto const fan_out = convolution.weight.size(0) * convolution.weight.size(2) * convolution.weight.size(3);
  convolution.weight.normal_(0, std::sqrt(2.0 / static_cast<double>(fan_out)));
}

}  // namespace maxbatch::models
