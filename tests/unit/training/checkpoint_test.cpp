#include <maxbatch/training/checkpoint.hpp>

#include <ATen/autocast_mode.h>
#include <torch/torch.h>

#include <gtest/gtest.h>

#include <memory>
#include <set>
#include <string>
#include <vector>

namespace maxbatch::test {
namespace {

using Tensors = std::vector<at::Tensor>;

/// Two layers with dropout between, and a residual branch.
struct Block : torch::nn::Module {
  Block() {
    register_module("first", first);
    register_module("second", second);
  }
  at::Tensor forward(at::Tensor const& x) {
    ++calls;
    return x + second->forward(at::dropout(at::gelu(first->forward(x)), 0.4, is_training()));
  }
  torch::nn::Linear first{16, 64};
  torch::nn::Linear second{64, 16};
  int calls = 0;
};

struct Net : torch::nn::Module {
  Net() {
    for (int i = 0; i < 4; ++i) {
      blocks.push_back(register_module("block" + std::to_string(i), std::make_shared<Block>()));
    }
  }
  at::Tensor forward(at::Tensor x) {
    for (auto const& block : blocks) {
      if (checkpointed) {
        x = checkpoint([block](Tensors const& inputs) { return block->forward(inputs[0]); }, {x}, block->parameters());
      } else {
        x = block->forward(x);
      }
    }
    return x;
  }
  std::vector<std::shared_ptr<Block>> blocks;
  bool checkpointed = false;
};

struct Run {
  at::Tensor output;
  Tensors gradients;
  at::Tensor drawn_afterwards;
};

Run run(Net& net, at::Tensor const& input, bool checkpointed, bool autocast = false) {
  net.checkpointed = checkpointed;
  net.zero_grad();
  torch::manual_seed(9);
  at::autocast::set_autocast_enabled(at::kCPU, autocast);
  auto const output = net.forward(input);
  at::autocast::set_autocast_enabled(at::kCPU, false);
  at::autocast::clear_cache();
  output.square().sum().backward();
  Run result{output.detach(), {}, torch::rand(4)};
  for (auto const& parameter : net.parameters()) { result.gradients.push_back(parameter.grad().clone()); }
  if (input.requires_grad()) {
    result.gradients.push_back(input.grad().clone());
    input.mutable_grad().reset();
  }
  return result;
}

void expect_same_bits(Run const& one, Run const& other) {
  EXPECT_TRUE(at::equal(one.output, other.output));
  ASSERT_EQ(one.gradients.size(), other.gradients.size());
  for (std::size_t i = 0; i < one.gradients.size(); ++i) {
    EXPECT_TRUE(at::equal(one.gradients[i], other.gradients[i])) << "gradient " << i;
  }
  EXPECT_TRUE(at::equal(one.drawn_afterwards, other.drawn_afterwards)) << "the random generator is elsewhere";
}

class Checkpoint : public testing::Test {
 protected:
  void SetUp() override {
    at::set_num_threads(1);
    torch::manual_seed(1);
    net = std::make_shared<Net>();
    input = torch::randn({8, 16});
  }
  std::shared_ptr<Net> net;
  at::Tensor input;
};

TEST_F(Checkpoint, GivesTheSameBitsWithDropout) {
  auto const usual = run(*net, input, false);
  for (auto const& block : net->blocks) { block->calls = 0; }
  expect_same_bits(run(*net, input, true), usual);
  for (auto const& block : net->blocks) { EXPECT_EQ(block->calls, 2); }
}

TEST_F(Checkpoint, GivesTheInputItsGradient) {
  input.requires_grad_();
  expect_same_bits(run(*net, input, true), run(*net, input, false));
}

TEST_F(Checkpoint, RunsAgainUnderTheAutocastOfTheFirstTime) {
  auto const usual = run(*net, input, false, /*autocast=*/true);
  expect_same_bits(run(*net, input, true, /*autocast=*/true), usual);
  EXPECT_FALSE(at::equal(usual.output, run(*net, input, true, /*autocast=*/false).output));
  EXPECT_FALSE(at::autocast::is_autocast_enabled(at::kCPU));
}

TEST_F(Checkpoint, AccumulatesOverMicroBatches) {
  auto const twice = [&](bool checkpointed) {
    net->checkpointed = checkpointed;
    net->zero_grad();
    torch::manual_seed(2);
    for (int i = 0; i < 2; ++i) { net->forward(input).square().sum().backward(); }
    Tensors gradients;
    for (auto const& parameter : net->parameters()) { gradients.push_back(parameter.grad().clone()); }
    return gradients;
  };
  auto const usual = twice(false);
  auto const checkpointed = twice(true);
  for (std::size_t i = 0; i < usual.size(); ++i) { EXPECT_TRUE(at::equal(usual[i], checkpointed[i])); }
}

TEST_F(Checkpoint, GivesNoGradientToFrozenParameters) {
  net->blocks[1]->first->weight.requires_grad_(false);
  net->checkpointed = true;
  net->forward(input).sum().backward();
  EXPECT_FALSE(net->blocks[1]->first->weight.grad().defined());
  EXPECT_TRUE(net->blocks[0]->first->weight.grad().defined());
}

TEST_F(Checkpoint, OnlyCallsWhereNothingRecordsGradients) {
  at::NoGradGuard const no_gradients;
  net->checkpointed = true;
  EXPECT_FALSE(net->forward(input).requires_grad());
  EXPECT_EQ(net->blocks[0]->calls, 1);
}

TEST_F(Checkpoint, LeavesANodeForEachBlock) {
  auto const nodes = [&](bool checkpointed) {
    net->checkpointed = checkpointed;
    auto const output = net->forward(input);
    std::set<torch::autograd::Node*> seen;
    std::vector<torch::autograd::Node*> open = {output.grad_fn().get()};
    while (!open.empty()) {
      auto* const node = open.back();
      open.pop_back();
      if (node->next_edges().empty() || !seen.insert(node).second) { continue; }  // a leaf, or known
      for (auto const& edge : node->next_edges()) {
        if (edge.function) { open.push_back(edge.function.get()); }
      }
    }
    return seen.size();
  };
  EXPECT_EQ(nodes(true), 4U);
  EXPECT_GT(nodes(false), 12U);
}

}  // namespace
}  // namespace maxbatch::test
