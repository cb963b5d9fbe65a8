#include "state_guard_small_net.hpp"
#include "support/state_hash.hpp"
#include <maxbatch/search/errors.hpp>
#include <maxbatch/training/multi_tensor_optimizers.hpp>
#include <maxbatch/training/state_guard.hpp>

#include <torch/torch.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace maxbatch::test {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Property;
using ::testing::ThrowsMessage;
using torch::optim::Optimizer;
using Parameters = std::vector<torch::Tensor>;

struct Kind {
  char const* name;
  std::function<std::shared_ptr<Optimizer>(Parameters)> make;
  bool makes_state = true;
  bool needs_closure = false;
};

void PrintTo(Kind const& kind, std::ostream* out) { *out << kind.name; }

template <typename OptimizerType, typename Options>
std::function<std::shared_ptr<Optimizer>(Parameters)> maker(Options options) {
  return [options](Parameters const& parameters) { return std::make_shared<OptimizerType>(parameters, options); };
}

std::vector<Kind> all_kinds() {
  using namespace torch::optim;
  return {
      {"SgdPlain", maker<SGD>(SGDOptions(0.1)), /*makes_state=*/false},
      {"SgdMomentum", maker<SGD>(SGDOptions(0.1).momentum(0.9).weight_decay(0.01))},
      {"Adam", maker<Adam>(AdamOptions(0.01))},
      {"AdamAmsgrad", maker<Adam>(AdamOptions(0.01).amsgrad(true).weight_decay(0.1))},
      {"AdamW", maker<AdamW>(AdamWOptions(0.01))},
      {"AdamWAmsgrad", maker<AdamW>(AdamWOptions(0.01).amsgrad(true))},
      {"ForeachAdamW", maker<ForeachAdamW>(AdamWOptions(0.01))},
      {"FusedAdamW", maker<FusedAdamW>(AdamWOptions(0.01).amsgrad(true))},
      {"ForeachSgd", maker<ForeachSGD>(SGDOptions(0.1).momentum(0.9).weight_decay(0.01))},
      {"FusedSgd", maker<FusedSGD>(SGDOptions(0.1).momentum(0.9))},
      {"RmsProp", maker<RMSprop>(RMSpropOptions(0.01))},
      {"RmsPropMomentumCentered", maker<RMSprop>(RMSpropOptions(0.01).momentum(0.9).centered(true))},
      {"Adagrad", maker<Adagrad>(AdagradOptions(0.1).lr_decay(0.1)), /*makes_state=*/true},
      {"Lbfgs", maker<LBFGS>(LBFGSOptions(0.5).max_iter(3).history_size(3)), true, /*needs_closure=*/true},
      {"LbfgsStrongWolfe", maker<LBFGS>(LBFGSOptions(0.5).max_iter(3).line_search_fn("strong_wolfe")), true, true},
  };
}

enum class StateMade { before, during, never };
enum class Failure { in_forward, in_backward, in_optimizer, none };

/// A net with its optimizer, and a training step that can fail on purpose.
struct Training {
  explicit Training(Kind const& a_kind)
      : kind(a_kind), net(make_small_net()), optimizer(kind.make(net->parameters())) {}

  double step(Failure failure, bool with_optimizer) {
    net->fail_in_forward = failure == Failure::in_forward;
    int evaluations = 0;
    double first_loss = 0;
    auto const evaluate = [&] {
      at::AutoGradMode const with_gradients(true);
      ++evaluations;
      optimizer->zero_grad();
      auto loss = small_net_loss(net);
      if (evaluations == 1) { first_loss = loss.item<double>(); }
      // LBFGS has made half of its state when it evaluates for the second time.
      bool const fails_here = kind.needs_closure && failure == Failure::in_optimizer && evaluations == 2;
      if (fails_here) { throw StepFailed("optimizer"); }
      auto const hook = net->input->weight.register_hook([failure](torch::Tensor const& /*gradient*/) {
        if (failure == Failure::in_backward) { throw StepFailed("backward"); }
      });
      try {
        loss.backward();
      } catch (...) {
        net->input->weight.remove_hook(hook);
        throw;
      }
      net->input->weight.remove_hook(hook);
      return loss;
    };
    if (kind.needs_closure && with_optimizer) {
      optimizer->step(evaluate);
      return first_loss;
    }
    evaluate();
    if (failure == Failure::in_optimizer) {
      // Of another shape: the step fails at the last parameter, after the others and after its state was made.
      net->output->bias.mutable_grad() = torch::ones({7});
      optimizer->step();
    } else if (with_optimizer) {
      optimizer->step();
    }
    return first_loss;
  }

  StateHash hash() { return std::move(StateHash().add(*net).add(*optimizer).add_process()); }

  Kind kind;
  SmallNet net;
  std::shared_ptr<Optimizer> optimizer;
};

std::vector<std::unique_ptr<StateGuard>> guards_of(Training& training) {
  std::vector<std::unique_ptr<StateGuard>> guards;
  guards.push_back(make_state_guard(training.net));
  guards.push_back(make_state_guard(training.optimizer));
  guards.push_back(make_global_state_guard());
  return guards;
}

/// The same training twice: one is interrupted by trials, one is not.
void expect_no_trace_of_trials(Kind const& kind, StateMade state_made, Failure failure) {
  bool const with_optimizer = state_made != StateMade::never;

  std::vector<double> losses;
  for (bool const interrupted : {false, true}) {
    Training training(kind);
    if (state_made == StateMade::before) {
      training.step(Failure::none, true);
      training.step(Failure::none, true);  // leaves its gradients behind
    }
    if (interrupted) {
      auto const before = training.hash();
      auto const states_before = training.optimizer->state().size();
      auto const guards = guards_of(training);
      for (int trial = 0; trial < 3; ++trial) {
        bool failed = false;
        try {
          training.step(Failure::none, with_optimizer);
          training.step(failure, with_optimizer);
        } catch (std::exception const&) { failed = true; }
        ASSERT_EQ(failed, failure != Failure::none);
        ASSERT_THAT(before.differences(training.hash()), Contains("model.norm.running_mean bytes"));
        for (auto const& guard : guards) { guard->restore_structure(); }
        for (auto const& parameter : training.net->parameters()) { ASSERT_FALSE(parameter.grad().defined()); }
        ASSERT_EQ(training.optimizer->state().size(), states_before);
      }
      ASSERT_THAT(before.differences(training.hash()), Contains("model.norm.running_mean bytes"));
      for (auto const& guard : guards) { guard->restore_values(); }
      EXPECT_THAT(before.differences(training.hash()), IsEmpty());
      training.net->fail_in_forward = false;
    }
    for (int i = 0; i < 3; ++i) { losses.push_back(training.step(Failure::none, true)); }
  }
  EXPECT_EQ(std::vector(losses.begin(), losses.begin() + 3), std::vector(losses.begin() + 3, losses.end()));
}

class EveryOptimizer : public ::testing::TestWithParam<Kind> {};

// Not a case for each combination: every case is a process of its own under ctest, which loads LibTorch for 2 s.
TEST_P(EveryOptimizer, IsAsIfNothingHadHappened) {
  for (auto const state_made : {StateMade::before, StateMade::during, StateMade::never}) {
    for (auto const failure : {Failure::in_forward, Failure::in_backward, Failure::in_optimizer, Failure::none}) {
      SCOPED_TRACE("state made " + std::to_string(static_cast<int>(state_made)) + ", failure " +
                   std::to_string(static_cast<int>(failure)));
      expect_no_trace_of_trials(GetParam(), state_made, failure);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(StateGuard, EveryOptimizer, ::testing::ValuesIn(all_kinds()),
                         [](auto const& one) { return std::string(one.param.name); });

class OptimizerStateGuard : public ::testing::Test {
 protected:
  SmallNet net = make_small_net();
  std::shared_ptr<torch::optim::Adam> adam =
      std::make_shared<torch::optim::Adam>(net->parameters(), torch::optim::AdamOptions(0.01));

  void step() {
    adam->zero_grad();
    small_net_loss(net).backward();
    adam->step();
  }
  torch::optim::AdamOptions& options() {
    return static_cast<torch::optim::AdamOptions&>(adam->param_groups()[0].options());
  }
};

TEST_F(OptimizerStateGuard, PutsOptionsBackIntoTheSameObject) {
  auto& live = options();
  auto const guard = make_state_guard(adam);
  live.lr(7).weight_decay(3).betas({0.1, 0.2}).amsgrad(true);
  static_cast<torch::optim::AdamOptions&>(adam->defaults()).eps(1);
  guard->restore_structure();
  EXPECT_EQ(&options(), &live);
  EXPECT_EQ(live.lr(), 0.01);
  EXPECT_EQ(live.weight_decay(), 0);
  EXPECT_EQ(live.betas(), std::make_tuple(0.9, 0.999));
  EXPECT_FALSE(live.amsgrad());
  EXPECT_EQ(static_cast<torch::optim::AdamOptions&>(adam->defaults()).eps(), 1e-8);
}

TEST_F(OptimizerStateGuard, PutsGroupMembershipBack) {
  auto const before = StateHash().add(*adam);
  auto const guard = make_state_guard(adam);
  adam->add_param_group(torch::optim::OptimizerParamGroup({torch::ones(2)}));
  adam->param_groups()[0].params().pop_back();
  guard->restore_structure();
  EXPECT_THAT(before.differences(StateHash().add(*adam)), IsEmpty());
}

TEST_F(OptimizerStateGuard, BringsBackGroupsAndStatesThatWereRemoved) {
  step();
  auto const guard = make_state_guard(adam);
  auto const* const weight = net->input->weight.unsafeGetTensorImpl();
  adam->param_groups().clear();
  adam->state().clear();
  guard->restore_structure();
  guard->restore_values();
  ASSERT_EQ(adam->param_groups().size(), 1U);
  EXPECT_EQ(adam->param_groups()[0].params()[0].unsafeGetTensorImpl(), weight);
  EXPECT_EQ(options().lr(), 0.01);
  EXPECT_EQ(adam->state().size(), 6U);
}

TEST_F(OptimizerStateGuard, PutsCountersAndTensorsBackThatAStepReplaced) {
  step();
  auto& state = static_cast<torch::optim::AdamParamState&>(*adam->state()[net->input->weight.unsafeGetTensorImpl()]);
  auto const average = state.exp_avg();
  auto const before = StateHash().add(*adam);
  auto const guard = make_state_guard(adam);
  state.step(100).exp_avg(torch::zeros(1)).exp_avg_sq({}).max_exp_avg_sq(torch::ones(3));
  guard->restore_structure();
  EXPECT_TRUE(state.exp_avg().is_same(average));
  guard->restore_values();
  EXPECT_THAT(before.differences(StateHash().add(*adam)), IsEmpty());
}

TEST_F(OptimizerStateGuard, RestoresEveryTensorOfLbfgs) {
  Training training(all_kinds().back());
  training.step(Failure::none, true);
  training.step(Failure::none, true);
  auto const before = training.hash();
  auto const guard = make_state_guard(training.optimizer);
  auto& state = static_cast<torch::optim::LBFGSParamState&>(*training.optimizer->state().begin()->second);
  ASSERT_FALSE(state.old_dirs().empty());
  ASSERT_TRUE(state.al());
  // LibTorch replaces most of these, but a step may write into them too.
  std::vector<torch::Tensor> tensors = {state.d(), state.H_diag(), state.prev_flat_grad()};
  for (auto const* const list : {&state.old_dirs(), &state.old_stps(), &state.ro()}) {
    tensors.insert(tensors.end(), list->begin(), list->end());
  }
  tensors.insert(tensors.end(), state.al()->begin(), state.al()->end());
  for (auto const& tensor : tensors) {
    if (tensor.defined()) { tensor.fill_(77); }
  }
  EXPECT_NE(training.hash(), before);
  guard->restore_structure();
  guard->restore_values();
  EXPECT_THAT(before.differences(training.hash()), IsEmpty());
}

TEST_F(OptimizerStateGuard, ErasesAStateThatWasOnlyHalfMade) {
  auto const guard = make_state_guard(adam);
  auto half = std::make_unique<torch::optim::AdamParamState>();
  half->exp_avg(torch::ones(3));
  adam->state()[net->input->weight.unsafeGetTensorImpl()] = std::move(half);
  adam->state()[net->input->bias.unsafeGetTensorImpl()] = nullptr;
  guard->restore_structure();
  EXPECT_TRUE(adam->state().empty());
}

TEST_F(OptimizerStateGuard, NamesItsResidentTensors) {
  step();
  std::vector<std::string> names;
  for (auto const& [name, tensor] : make_state_guard(adam)->resident_tensors()) { names.push_back(name); }
  EXPECT_EQ(names.size(), 12U);
  EXPECT_THAT(names, Contains("optimizer.param_groups[0].params[1].exp_avg_sq"));
}

TEST_F(OptimizerStateGuard, TakesAReferenceToo) {
  auto const guard = make_state_guard(*adam);
  step();
  guard->restore_structure();
  EXPECT_TRUE(adam->state().empty());
}

struct Lion : torch::optim::Optimizer {
  explicit Lion(Parameters parameters)
      : Optimizer(std::move(parameters), std::make_unique<torch::optim::SGDOptions>(0.1)) {}
  torch::Tensor step(LossClosure /*closure*/ = nullptr) override { return {}; }
};
struct AdamWithMemory : torch::optim::Adam {
  using Adam::Adam;
};

TEST_F(OptimizerStateGuard, RefusesAnUnknownKindByName) {
  auto const says = [](char const* type) {
    return ThrowsMessage<InvalidArgument>(
        AllOf(HasSubstr(type), HasSubstr("SGD, Adam, AdamW, RMSprop, Adagrad"), HasSubstr("make_state_guard")));
  };
  EXPECT_THAT([&] { make_state_guard(std::make_shared<Lion>(net->parameters())); }, says("Lion"));
  EXPECT_THAT([&] { make_state_guard(std::make_shared<AdamWithMemory>(net->parameters())); }, says("AdamWithMemory"));
  EXPECT_THAT([] { make_state_guard(std::shared_ptr<Optimizer>()); },
              ThrowsMessage<InvalidArgument>(HasSubstr("null pointer")));
}

TEST_F(OptimizerStateGuard, RefusesOptionsOfAnotherKind) {
  adam->param_groups()[0].set_options(std::make_unique<torch::optim::SGDOptions>(0.1));
  EXPECT_THAT([&] { make_state_guard(adam); },
              ThrowsMessage<InvalidArgument>(AllOf(HasSubstr("SGDOptions"), HasSubstr("AdamOptions"))));
}

}  // namespace
}  // namespace maxbatch::test
