#include "channel_norm.hpp"

#include "frozen_norm.hpp"

#include <torch/torch.h>

namespace maxbatch::models {
namespace {

constexpr double kMomentum = 0.1;  // as torch.nn.BatchNorm2d

}  // namespace

ChannelNorm::ChannelNorm(NormKind kind_, std::int64_t channels, double epsilon_, c10::Device device)
    : kind(kind_), epsilon(epsilon_) {
  auto const ones = at::ones({channels}, device);
  auto const zeros = at::zeros({channels}, device);
  if (kind == NormKind::batch) {
    weight = register_parameter("weight", ones);
    bias = register_parameter("bias", zeros);
  } else {
    weight = register_buffer("weight", ones);
    bias = register_buffer("bias", zeros);
  }
  running_mean = register_buffer("running_mean", at::zeros({channels}, device));
  running_var = register_buffer("running_var", at::ones({channels}, device));
  if (kind == NormKind::batch) {
    num_batches_tracked = register_buffer("num_batches_tracked", at::zeros({}, at::device(device).dtype(at::kLong)));
  }
}

at::Tensor ChannelNorm::forward(at::Tensor const& x) const {
  if (kind == NormKind::batch) {
    return at::batch_norm(x, weight, bias, running_mean, running_var, is_training(), kMomentum, epsilon,
                          at::globalContext().userEnabledCuDNN());
  }
  return frozen(x, {}, /*relu=*/false);
}

at::Tensor ChannelNorm::forward_relu(at::Tensor const& x) const {
  return kind == NormKind::frozen ? frozen(x, {}, /*relu=*/true) : forward(x).relu_();
}

at::Tensor ChannelNorm::forward_add_relu(at::Tensor const& x, at::Tensor const& added) const {
  return kind == NormKind::frozen ? frozen(x, added, /*relu=*/true) : forward(x).add_(added).relu_();
}

at::Tensor ChannelNorm::frozen(at::Tensor const& x, at::Tensor const& added, bool relu) const {
  return frozen_norm(x, added, {weight, bias, running_mean, running_var, epsilon}, relu);
}

}  // namespace maxbatch::models
