#include "autograd_queue.hpp"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/function.h>

#include <memory>

namespace maxbatch::detail {
namespace {

/// Older than every node that autograd makes: sequence numbers count up from here, youngest first out of the queue.
struct OldestNode : torch::autograd::Node {
  OldestNode() : Node(/*sequence_nr=*/0) { add_input_metadata(at::zeros({1})); }
  torch::autograd::variable_list apply(torch::autograd::variable_list&&) override { return {}; }
};

}  // namespace

void drain_autograd_queue() {
  auto const oldest = std::make_shared<OldestNode>();
  torch::autograd::Engine::get_default_engine().execute({torch::autograd::Edge(oldest, 0)}, {at::zeros({1})},
                                                        /*keep_graph=*/false, /*create_graph=*/false,
                                                        /*accumulate_grad=*/true);
}

}  // namespace maxbatch::detail
