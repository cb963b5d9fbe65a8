#pragma once

#include <torch/torch.h>

#include <stdexcept>

namespace maxbatch::test {

/// A failure that is not about memory, so that nothing but the guards can be at work.
struct StepFailed : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// Parameters, buffers that change in forward, a random mask, and a submodule that may be in another mode.
struct SmallNetImpl : torch::nn::Module {
  SmallNetImpl() {
    input = register_module("input", torch::nn::Linear(6, 8));
    norm = register_module("norm", torch::nn::BatchNorm1d(8));
    dropout = register_module("dropout", torch::nn::Dropout(0.4));
    output = register_module("output", torch::nn::Linear(8, 3));
  }

  torch::Tensor forward(torch::Tensor const& x) {
    auto hidden = dropout(torch::relu(norm(input(x))));
    if (fail_in_forward) { throw StepFailed("forward"); }
    return output(hidden);
  }

  torch::nn::Linear input = nullptr, output = nullptr;
  torch::nn::BatchNorm1d norm = nullptr;
  torch::nn::Dropout dropout = nullptr;
  bool fail_in_forward = false;
};
TORCH_MODULE(SmallNet);

/// The same net each time, also in its random numbers to come. One thread: OpenMP's threads wait for each other in loops,
/// and where other tests run too that takes ten times as long as these few numbers.
inline SmallNet make_small_net() {
  at::set_num_threads(1);
  torch::manual_seed(11);
  return SmallNet();
}

inline torch::Tensor small_net_loss(SmallNet& net) {
  return net(torch::linspace(-1, 1, 5 * 6).reshape({5, 6})).square().mean();
}

}  // namespace maxbatch::test
