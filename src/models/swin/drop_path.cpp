#include "drop_path.hpp"

#include <torch/torch.h>

namespace maxbatch::models {

std::vector<at::Tensor> draw_drop_path(at::Tensor const& keep, std::int64_t batch_size, at::ScalarType dtype) {
  at::NoGradGuard const no_gradients;
  auto const factors = at::bernoulli(keep.expand({keep.size(0), batch_size})).div_(keep).to(dtype);
  return factors.view({keep.size(0), batch_size, 1, 1, 1}).unbind(0);
}

at::Tensor add_branch(at::Tensor const& x, at::Tensor branch, at::Tensor const& factor) {
  if (factor.defined()) {
    // One kernel and no tensor between. Autocast would make a float copy of a 16-bit branch for it.
    if (branch.scalar_type() == x.scalar_type()) { return at::addcmul(x, branch, factor); }
    return x + branch * factor;
  }
  if (!at::GradMode::is_enabled() && branch.scalar_type() == x.scalar_type()) { return branch.add_(x); }
  return x + branch;
}

}  // namespace maxbatch::models
