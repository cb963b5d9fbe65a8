#include "token_order.hpp"

#include <torch/torch.h>

namespace maxbatch::models {
namespace {

struct ReorderTokens : torch::autograd::Function<ReorderTokens> {
  static at::Tensor forward(torch::autograd::AutogradContext* context, at::Tensor const& tokens,
                            at::Tensor const& order, at::Tensor const& inverse) {
    context->save_for_backward({inverse});
    return at::index_select(tokens, 1, order);
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list const& gradients) {
    auto const saved = context->get_saved_variables();
    return {at::index_select(gradients[0], 1, saved[0]), at::Tensor(), at::Tensor()};
  }
};

}  // namespace

at::Tensor reorder_tokens(at::Tensor const& tokens, at::Tensor const& order, at::Tensor const& inverse) {
  return ReorderTokens::apply(tokens, order, inverse);
}

}  // namespace maxbatch::models
