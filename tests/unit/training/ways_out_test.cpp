#include "support/state_hash.hpp"
#include "support/training_net.hpp"
#include <maxbatch/device/budgeted_cpu_device.hpp>
#include <maxbatch/training/max_batch_finder.hpp>

#include <torch/torch.h>

#include <gmock/gmock.h>

#include <chrono>
#include <functional>
#include <stdexcept>
#include <string>
#include <vector>

namespace maxbatch {
namespace {

using namespace literals;
using namespace test;
using ::testing::IsEmpty;

/// How a search ends, and what it must say then.
struct WayOut {
  std::string name;
  std::function<void(Trial&, Phase)> trouble;  // called at the end of each phase
  std::function<void(FinderOptions&)> options;
  Bytes budget = 1_GiB;
  std::optional<Proof> proof;  // none: an exception leaves
  std::optional<Phase> failing_phase;
};

WayOut out_of_memory_in(Phase phase) {
  WayOut way;
  way.name = "out_of_memory_in_" + std::string(to_string(phase));
  way.trouble = [phase](Trial& trial, Phase now) {
    if (now == phase && trial.step_index() == 1) { torch::empty({trial.batch_size(), 16 << 20}, torch::kByte); }
  };
  way.budget = 64_MiB;
  way.proof = Proof::bracketed;
  way.failing_phase = phase;
  return way;
}

std::vector<WayOut> ways_out() {
  std::vector<WayOut> ways = {out_of_memory_in(Phase::forward), out_of_memory_in(Phase::backward),
                              out_of_memory_in(Phase::optimizer)};
  WayOut fits;
  fits.name = "fits";
  fits.options = [](FinderOptions& options) { options.search.maximum = 6; };
  fits.proof = Proof::at_allowed_maximum;
  ways.push_back(fits);

  WayOut nothing;
  nothing.name = "nothing_fits";
  nothing.budget = 20_KiB;
  nothing.proof = Proof::nothing_fits;
  ways.push_back(nothing);

  WayOut foreign;
  foreign.name = "foreign_exception";
  foreign.trouble = [](Trial&, Phase now) {
    if (now == Phase::backward) { throw std::domain_error("mine"); }
  };
  ways.push_back(foreign);

  WayOut not_standard;
  not_standard.name = "exception_of_no_class";
  not_standard.trouble = [](Trial& trial, Phase now) {
    if (now == Phase::optimizer && trial.step_index() == 1) { throw 7; }
  };
  ways.push_back(not_standard);

  WayOut late;
  late.name = "time_out";
  late.options = [](FinderOptions& options) {
    options.search.max_duration = std::chrono::seconds(5);
    options.search.clock = [seconds = 0.0]() mutable { return seconds += 1; };
  };
  late.proof = Proof::best_so_far;
  ways.push_back(late);
  return ways;
}

enum class StateMade { before, during, never };

void expect_everything_as_it_was(std::string const& optimizer_kind, StateMade made, WayOut const& way) {
  torch::manual_seed(3);
  MixedTraining training(optimizer_kind);
  training.net->attention->eval();  // a mode of its own
  if (made == StateMade::before) { step_outside_a_finder(training, 4); }

  auto const hash = [&training] { return StateHash().add(*training.net).add(*training.optimizer).add_process(); };
  auto const before = hash();
  FinderOptions options;
  options.search.maximum = 64;
  if (way.options) { way.options(options); }
  MaxBatchFinder finder(budgeted_cpu_device(way.budget), options);
  finder.preserve(training.net).preserve(training.optimizer);
  auto const step = [&](Trial& trial) {
    if (made == StateMade::never) {  // forward and backward only: the optimizer never steps
      auto const loss = trial.phase(Phase::forward, [&] {
        return training.net->forward(torch::randn({trial.batch_size(), 3, 16, 16})).sum();
      });
      trial.phase(Phase::backward, [&] { loss.backward(); });
    } else {
      training.step(trial);
    }
    for (auto const phase : {Phase::forward, Phase::backward, Phase::optimizer}) {
      trial.phase(phase, [&] {
        if (way.trouble) { way.trouble(trial, phase); }
      });
    }
  };
  if (way.proof) {
    auto const result = finder.find(step);
    EXPECT_EQ(result.search.proof, *way.proof) << result.summary();
    if (way.failing_phase) {
      ASSERT_NE(result.search.next_failure(), nullptr);
      EXPECT_EQ(result.search.next_failure()->outcome.failed_request->phase, *way.failing_phase);
    }
    EXPECT_THAT(result.warnings, IsEmpty());
  } else {
    EXPECT_ANY_THROW(finder.find(step));
  }
  EXPECT_THAT(before.differences(hash()), IsEmpty());
}

// One test an optimizer, since each test of a LibTorch binary pays for its start.
class WaysOut : public ::testing::TestWithParam<std::string> {};

TEST_P(WaysOut, LeaveEverythingAsItWas) {
  for (auto const made : {StateMade::before, StateMade::during, StateMade::never}) {
    for (auto const& way : ways_out()) {
      SCOPED_TRACE(way.name + ", optimizer state made " +
                   (made == StateMade::before   ? "before"
                    : made == StateMade::during ? "during"
                                                : "never"));
      expect_everything_as_it_was(GetParam(), made, way);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Optimizers, WaysOut, ::testing::Values("sgd", "adam", "adamw", "rmsprop", "lbfgs"),
                         [](auto const& instance) { return instance.param; });

}  // namespace
}  // namespace maxbatch
