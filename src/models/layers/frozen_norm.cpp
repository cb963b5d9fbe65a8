#include "frozen_norm.hpp"

#include "../cuda_kernels.hpp"
#include "frozen_norm_launch.hpp"

#include <torch/torch.h>

#include <optional>

namespace maxbatch::models {
namespace {

at::ScalarType computed_type(at::Tensor const& x) { return x.scalar_type() == at::kDouble ? at::kDouble : at::kFloat; }

std::optional<ElementType> element_type(at::Tensor const& x) {
  switch (x.scalar_type()) {
    case at::kFloat: return ElementType::float32;
    case at::kDouble: return ElementType::float64;
    case at::kHalf: return ElementType::float16;
    case at::kBFloat16: return ElementType::bfloat16;
    default: return std::nullopt;
  }
}

/// What the kernels take; none where LibTorch's operators do it.
std::optional<FrozenNormShape> kernel_shape(at::Tensor const& x, FrozenStatistics const& statistics, bool relu) {
  constexpr std::int64_t kMostParts = 65535;  // of a plane, each of some thousand pixels
  auto const type = element_type(x);
  if (!MAXBATCH_HAS_CUDA_KERNELS || !x.is_cuda() || !type || !x.is_contiguous() || x.numel() == 0) {
    return std::nullopt;
  }
  FrozenNormShape shape;
  shape.type = *type;
  shape.channels = x.size(1);
  shape.planes = x.size(0) * x.size(1);
  shape.pixels = x.size(2) * x.size(3);
  shape.epsilon = statistics.epsilon;
  shape.relu = relu;
  auto const is_known = statistics.weight.scalar_type() == computed_type(x) && shape.pixels / 2048 < kMostParts;
  return is_known ? std::optional(shape) : std::nullopt;
}

at::Tensor scale_of(FrozenStatistics const& statistics, at::ScalarType type) {
  return (statistics.weight * (statistics.variance + statistics.epsilon).rsqrt()).to(type).view({-1, 1, 1});
}

struct FrozenNorm : torch::autograd::Function<FrozenNorm> {
  static at::Tensor forward(torch::autograd::AutogradContext* context, at::Tensor x,
                            std::optional<at::Tensor> const& maybe_added, at::Tensor const& weight,
                            at::Tensor const& bias, at::Tensor const& mean, at::Tensor const& variance, double epsilon,
                            bool relu) {
    FrozenStatistics const statistics{weight, bias, mean, variance, epsilon};
    auto const added = maybe_added.value_or(at::Tensor());
    auto const shape = kernel_shape(x, statistics, relu);
    if (shape && (!added.defined() || (added.is_contiguous() && added.scalar_type() == x.scalar_type()))) {
      with_cuda_kernels("a frozen norm", x, [&](auto stream) {
        check_launch(launch_frozen_norm(*shape, x.data_ptr(), added.defined() ? added.const_data_ptr() : nullptr,
                                        weight.const_data_ptr(), bias.const_data_ptr(), mean.const_data_ptr(),
                                        variance.const_data_ptr(), stream));
      });
    } else {
      auto const type = computed_type(x);
      auto const scale = scale_of(statistics, type);
      auto const shift = bias.to(type).view({-1, 1, 1}) - mean.to(type).view({-1, 1, 1}) * scale;
      if (x.scalar_type() == type) {
        at::addcmul_out(x, shift.expand(x.sizes()), x, scale);
        if (added.defined()) { x.add_(added); }
        if (relu) { x.relu_(); }
      } else {
        auto y = at::addcmul(shift, x.to(type), scale);
        if (added.defined()) { y.add_(added); }
        x.copy_(relu ? y.relu_() : y);
      }
    }
    context->mark_dirty({x});
    context->save_for_backward({relu ? x : at::Tensor(), weight, variance});
    context->saved_data["epsilon"] = epsilon;
    context->saved_data["relu"] = relu;
    context->saved_data["adds"] = added.defined();
    return x;
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list const& gradients) {
    auto const saved = context->get_saved_variables();
    auto const& result = saved[0];
    auto const relu = context->saved_data["relu"].toBool();
    auto const adds = context->saved_data["adds"].toBool();
    auto const of_result = gradients[0].contiguous();
    FrozenStatistics statistics;
    statistics.weight = saved[1];
    statistics.variance = saved[2];
    statistics.epsilon = context->saved_data["epsilon"].toDouble();
    auto const wants_x = context->needs_input_grad(0);
    auto const wants_added = adds && context->needs_input_grad(1);

    at::Tensor of_x;
    at::Tensor of_added;
    auto const shape = kernel_shape(of_result, statistics, relu);
    if (shape && (!relu || result.is_contiguous())) {
      if (wants_x) { of_x = at::empty_like(of_result); }
      // Without ReLU it is the same gradient.
      if (wants_added) { of_added = relu ? at::empty_like(of_result) : of_result; }
      with_cuda_kernels("a frozen norm", of_result, [&](auto stream) {
        check_launch(launch_frozen_norm_gradient(
            *shape, of_result.const_data_ptr(), relu ? result.const_data_ptr() : nullptr,
            statistics.weight.const_data_ptr(), statistics.variance.const_data_ptr(),
            wants_x ? of_x.data_ptr() : nullptr, wants_added && relu ? of_added.data_ptr() : nullptr, stream));
      });
    } else {
      auto const behind_relu = relu ? at::threshold_backward(of_result, result, 0) : of_result;
      auto const type = computed_type(of_result);
      if (wants_x) { of_x = (behind_relu * scale_of(statistics, type)).to(of_result.scalar_type()); }
      if (wants_added) { of_added = behind_relu; }
    }
    return {of_x, of_added, {}, {}, {}, {}, {}, {}};
  }
};

}  // namespace

at::Tensor frozen_norm(at::Tensor const& x, at::Tensor const& added, FrozenStatistics const& statistics, bool relu) {
  // Autograd asks every tensor that it is given for its device.
  auto const maybe_added = added.defined() ? std::optional(added) : std::nullopt;
  return FrozenNorm::apply(x, maybe_added, statistics.weight, statistics.bias, statistics.mean, statistics.variance,
                           statistics.epsilon, relu);
}

}  // namespace maxbatch::models
