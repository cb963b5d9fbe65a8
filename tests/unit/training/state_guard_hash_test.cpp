#include "state_guard_small_net.hpp"
#include "support/state_hash.hpp"

#include <torch/torch.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace maxbatch::test {
namespace {

using ::testing::Contains;
using ::testing::IsEmpty;
using ::testing::StartsWith;

/// A net whose optimizer has its state, and gradients from the last step.
struct Trained {
  Trained() : net(make_small_net()) {
    torch::optim::AdamOptions options(0.01);
    options.amsgrad(true);
    adam = std::make_shared<torch::optim::Adam>(net->parameters(), options);
    small_net_loss(net).backward();
    adam->step();
  }

  StateHash hash() { return std::move(StateHash().add(*net).add(*adam)); }
  torch::Tensor& weight() { return net->input->weight; }
  torch::optim::AdamOptions& options() {
    return static_cast<torch::optim::AdamOptions&>(adam->param_groups()[0].options());
  }
  torch::optim::AdamParamState& state() {
    return static_cast<torch::optim::AdamParamState&>(*adam->state()[weight().unsafeGetTensorImpl()]);
  }

  SmallNet net;
  std::shared_ptr<torch::optim::Adam> adam;
};

/// A change, and the part of the hash that must notice it. A hash that cannot fail proves nothing.
struct Change {
  char const* name;
  std::function<void(Trained&)> make;
  char const* part;
};
std::vector<Change> all_changes() {
  return {
      {"OneBitOfAParameter", [](Trained& t) { static_cast<unsigned char*>(t.weight().data_ptr())[0] ^= 1U; },
       "model.input.weight bytes"},
      {"SignOfZero",
       [](Trained& t) {
         t.net->input->bias.data().fill_(0.0);
         t.net->input->bias.data().neg_();
       },
       "model.input.bias bytes"},
      {"Buffer", [](Trained& t) { t.net->norm->running_mean.add_(1); }, "model.norm.running_mean bytes"},
      {"BufferCounter", [](Trained& t) { t.net->norm->num_batches_tracked.add_(1); },
       "model.norm.num_batches_tracked bytes"},
      {"Storage", [](Trained& t) { t.weight().set_data(t.weight().data().clone()); }, "model.input.weight storage"},
      {"Address", [](Trained& t) { t.weight().set_data(t.weight().data().clone()); }, "model.input.weight address"},
      {"Geometry",
       [](Trained& t) {
         t.weight().set_data(t.weight().data().view({6, 8}));
       },
       "model.input.weight geometry"},
      {"Dtype", [](Trained& t) { t.weight().set_data(t.weight().data().to(torch::kDouble)); },
       "model.input.weight geometry"},
      {"RequiresGrad", [](Trained& t) { t.weight().requires_grad_(false); }, "model.input.weight requires_grad"},
      {"History", [](Trained& t) { t.net->norm->running_mean.mul_(t.net->input->bias); },
       "model.norm.running_mean history"},
      {"GradientGone", [](Trained& t) { t.weight().mutable_grad().reset(); }, "model.input.weight.grad exists"},
      {"GradientValue", [](Trained& t) { t.weight().grad().add_(1); }, "model.input.weight.grad bytes"},
      {"GradientLayout", [](Trained& t) { t.weight().mutable_grad() = t.weight().grad().t().contiguous().t(); },
       "model.input.weight.grad geometry"},
      {"TrainingFlag", [](Trained& t) { t.net->dropout->eval(); }, "model.dropout training"},
      {"NewParameter", [](Trained& t) { t.net->register_parameter("late", torch::ones(1)); }, "model.late"},
      {"LearningRate", [](Trained& t) { t.options().lr(0.5); }, "optimizer.param_groups[0].lr"},
      {"Betas",
       [](Trained& t) {
         t.options().betas({0.9, 0.9});
       },
       "optimizer.param_groups[0].betas"},
      {"Flag", [](Trained& t) { t.options().amsgrad(false); }, "optimizer.param_groups[0].amsgrad"},
      {"OptionsObject",
       [](Trained& t) {
         t.adam->param_groups()[0].set_options(std::make_unique<torch::optim::AdamOptions>(t.options()));
       },
       "optimizer.param_groups[0].options"},
      {"Defaults", [](Trained& t) { t.adam->defaults().set_lr(0.5); }, "optimizer.defaults.lr"},
      {"Member", [](Trained& t) { t.adam->param_groups()[0].params().pop_back(); }, "optimizer.param_groups[0].params"},
      {"Group", [](Trained& t) { t.adam->add_param_group({{torch::ones(1)}}); }, "optimizer.param_groups size"},
      {"StateCounter", [](Trained& t) { t.state().step(2); }, "optimizer.param_groups[0].params[0].step"},
      {"StateValue", [](Trained& t) { t.state().exp_avg().add_(1); },
       "optimizer.param_groups[0].params[0].exp_avg bytes"},
      {"StateTensor", [](Trained& t) { t.state().exp_avg_sq(t.state().exp_avg_sq().clone()); },
       "optimizer.param_groups[0].params[0].exp_avg_sq"},
      {"StateTensorGone", [](Trained& t) { t.state().max_exp_avg_sq({}); },
       "optimizer.param_groups[0].params[0].max_exp_avg_sq"},
      {"StateObject",
       [](Trained& t) {
         t.adam->state()[t.weight().unsafeGetTensorImpl()] = std::make_unique<torch::optim::AdamParamState>(t.state());
       },
       "optimizer.param_groups[0].params[0].state"},
      {"StateErased", [](Trained& t) { t.adam->state().erase(t.weight().unsafeGetTensorImpl()); },
       "optimizer.state size"},
      {"StateOfAStranger", [](Trained& t) { t.adam->state()[&t] = nullptr; }, "optimizer.state size"},
  };
}

// One case, not one for each change: every case is a process of its own under ctest, which loads LibTorch for 2 s.
TEST(StateHash, NoticesEveryChange) {
  for (auto const& change : all_changes()) {
    SCOPED_TRACE(change.name);
    Trained trained;
    auto const before = trained.hash();
    EXPECT_EQ(trained.hash(), before);
    EXPECT_EQ(trained.hash().value(), before.value());
    change.make(trained);
    auto const after = trained.hash();
    EXPECT_THAT(before.differences(after), Contains(change.part));
    EXPECT_NE(after, before);
    EXPECT_NE(after.value(), before.value());
  }
}

// The switches of the process are flipped one by one in state_guard_global_test.cpp, which asks the hash each time.

TEST(StateHash, NoticesEveryFieldOfLbfgs) {
  auto weight = torch::ones(3, torch::requires_grad());
  torch::optim::LBFGS lbfgs({weight}, torch::optim::LBFGSOptions(0.1).max_iter(4));
  lbfgs.step([&] {
    lbfgs.zero_grad();
    auto loss = (weight * torch::arange(3)).square().sum();
    loss.backward();
    return loss;
  });
  auto& state = static_cast<torch::optim::LBFGSParamState&>(*lbfgs.state()[weight.unsafeGetTensorImpl()]);
  ASSERT_TRUE(state.al());
  ASSERT_FALSE(state.old_dirs().empty());
  auto const notices = [&](char const* part, auto const& change) {
    auto const kept = state;
    auto const before = StateHash().add(lbfgs);
    change();
    EXPECT_THAT(before.differences(StateHash().add(lbfgs)), Contains(StartsWith(part)));
    state = kept;
    EXPECT_THAT(before.differences(StateHash().add(lbfgs)), IsEmpty());
  };
  auto const prefix = std::string("optimizer.param_groups[0].params[0].");
  notices((prefix + "func_evals").c_str(), [&] { state.func_evals(99); });
  notices((prefix + "n_iter").c_str(), [&] { state.n_iter(99); });
  notices((prefix + "t").c_str(), [&] { state.t(99); });
  notices((prefix + "prev_loss").c_str(), [&] { state.prev_loss(99); });
  notices((prefix + "d").c_str(), [&] { state.d({}); });
  notices((prefix + "H_diag").c_str(), [&] { state.H_diag({}); });
  notices((prefix + "prev_flat_grad").c_str(), [&] { state.prev_flat_grad({}); });
  notices((prefix + "old_dirs").c_str(), [&] { state.old_dirs().pop_back(); });
  notices((prefix + "old_stps").c_str(), [&] { state.old_stps().front() = torch::ones(1); });
  notices((prefix + "ro").c_str(), [&] { state.ro().push_back(torch::ones(1)); });
  notices((prefix + "al").c_str(), [&] { state.al()->at(0) = torch::ones(1); });
  notices((prefix + "has al").c_str(), [&] { state.al(std::nullopt); });
}

}  // namespace
}  // namespace maxbatch::test
