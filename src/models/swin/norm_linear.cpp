#include "norm_linear.hpp"

#include <torch/torch.h>

namespace maxbatch::models {
namespace {

constexpr double kEpsilon = 1e-5;  // as torch.nn.LayerNorm

struct NormLinearFunction : torch::autograd::Function<NormLinearFunction> {
  static at::Tensor forward(torch::autograd::AutogradContext* context, at::Tensor const& x,
                            at::Tensor const& norm_weight, at::Tensor const& norm_bias, at::Tensor const& weight) {
    // The norm of a 16-bit tensor is a float one under autocast; later calls see no autocast any more.
    auto const input = norm_weight.scalar_type() == x.scalar_type() ? x : x.to(norm_weight.scalar_type());
    auto const [normed, mean, rstd] =
        at::native_layer_norm(input, norm_weight.sizes(), norm_weight, norm_bias, kEpsilon);
    context->save_for_backward({x, mean, rstd, norm_weight, norm_bias, weight});
    return at::linear(normed, weight);
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list const& gradients) {
    auto const saved = context->get_saved_variables();
    auto const& [mean, rstd, norm_weight, norm_bias, weight] =
        std::tie(saved[1], saved[2], saved[3], saved[4], saved[5]);
    auto const x = saved[0].to(norm_weight.scalar_type());
    auto const type = gradients[0].scalar_type();
    auto const rows = gradients[0].reshape({-1, weight.size(0)});
    at::Tensor weight_gradient;
    {
      auto const normed = std::get<0>(at::native_layer_norm(x, norm_weight.sizes(), norm_weight, norm_bias, kEpsilon));
      weight_gradient = at::mm(rows.t(), normed.to(type).view({-1, weight.size(1)})).to(weight.scalar_type());
    }
    auto const of_normed = at::mm(rows, weight.to(type)).to(x.scalar_type()).view(x.sizes());
    auto [of_x, of_norm_weight, of_norm_bias] = at::native_layer_norm_backward(
        of_normed, x, norm_weight.sizes(), mean, rstd, norm_weight, norm_bias, {true, true, true});
    return {of_x.to(saved[0].scalar_type()), of_norm_weight, of_norm_bias, weight_gradient};
  }
};

}  // namespace

at::Tensor norm_linear(at::Tensor const& x, at::Tensor const& norm_weight, at::Tensor const& norm_bias,
                       at::Tensor const& weight) {
  return NormLinearFunction::apply(x, norm_weight, norm_bias, weight);
}

}  // namespace maxbatch::models
