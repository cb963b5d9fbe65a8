#include "autograd_queue.hpp"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/function.h>

#include <memory>

namespace maxbatch::detail {
namespace {

/// Older than every node that autograd makes: sequence numbers count up from here, youngest first out of the queue.
struct OldestNode : torch::autograd::Node {
  /// Runs in the thread of its gradient's device.
  explicit OldestNode(at::Tensor const& gradient) : Node(/*sequence_nr=*/0) { add_input_metadata(gradient); }
  torch::autograd::variable_list apply(torch::autograd::variable_list&&) override { return {}; }
};

void run_oldest_node(at::Tensor const& gradient) {
  auto const oldest = std::make_shared<OldestNode>(gradient);
  torch::autograd::Engine::get_default_engine().execute({torch::autograd::Edge(oldest, 0)}, {gradient},
                                                        /*keep_graph=*/false, /*create_graph=*/false,
                                                        /*accumulate_grad=*/true);
}

}  // namespace

void drain_autograd_queue() { run_oldest_node(at::zeros({1})); }

// No number, no memory.
void wait_for_autograd_thread(c10::Device device) { run_oldest_node(at::empty({0}, at::device(device))); }

}  // namespace maxbatch::detail
