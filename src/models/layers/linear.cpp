#include "linear.hpp"

#include <torch/torch.h>

#include <cmath>

namespace maxbatch::models {

Linear::Linear(std::int64_t in, std::int64_t out, c10::Device device) {
  auto const bound = 1 / std::sqrt(static_cast<double>(in));
  weight = register_parameter("weight", at::empty({out, in}, device).uniform_(-bound, bound));
  bias = register_parameter("bias", at::empty({out}, device).uniform_(-bound, bound));
}

at::Tensor Linear::forward(at::Tensor const& x) const { return at::linear(x, weight, bias); }

}  // namespace maxbatch::models
