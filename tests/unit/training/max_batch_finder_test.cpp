#include "support/state_hash.hpp"
#include <maxbatch/device/budgeted_cpu_device.hpp>
#include <maxbatch/search/errors.hpp>
#include <maxbatch/training/max_batch_finder.hpp>

#include <torch/torch.h>

#include <gmock/gmock.h>

#include <stdexcept>
#include <string>
#include <vector>

namespace maxbatch {
namespace {

using namespace literals;
using test::StateHash;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

/// Holds a megabyte a sample for as long as it runs, and nothing after.
void use_a_megabyte_each(std::int64_t batch_size) {
  auto const held = torch::empty({batch_size, 1 << 20}, torch::kByte);
}

struct Net : torch::nn::Module {
  Net() {
    register_module("hidden", hidden);
    register_module("norm", norm);
    register_module("out", out);
  }
  at::Tensor forward(at::Tensor const& x) {
    return out->forward(dropout->forward(torch::relu(norm->forward(hidden->forward(x)))));
  }
  torch::nn::Linear hidden{64, 256};
  torch::nn::BatchNorm1d norm{256};
  torch::nn::Dropout dropout{0.3};
  torch::nn::Linear out{256, 8};
};

/// Batch norm over vectors refuses a batch of one.
FinderOptions from_two() {
  FinderOptions options;
  options.search.minimum = 2;
  return options;
}

struct Training {
  std::shared_ptr<Net> net = std::make_shared<Net>();
  torch::optim::AdamW optimizer{net->parameters(), torch::optim::AdamWOptions(1e-2)};

  void step(Trial& trial) {
    auto const images = torch::randn({trial.batch_size(), 64}, trial.device());
    optimizer.zero_grad();
    auto const loss = trial.phase(Phase::forward, [&] { return net->forward(images).square().mean(); });
    trial.phase(Phase::backward, [&] { loss.backward(); });
    trial.phase(Phase::optimizer, [&] { optimizer.step(); });
  }
  StateHash hash() { return StateHash().add(*net).add(optimizer).add_process(); }
};

TEST(MaxBatchFinder, TakesABatchSizeOnly) {
  MaxBatchFinder finder(budgeted_cpu_device(100_MiB));
  auto const result = finder.preserve_nothing().find([](std::int64_t batch_size) { use_a_megabyte_each(batch_size); });
  EXPECT_EQ(result.batch_size(), 100);
  EXPECT_EQ(result.search.proof, Proof::bracketed);
  ASSERT_NE(result.search.next_failure(), nullptr);
  auto const& request = result.search.next_failure()->outcome.failed_request;
  ASSERT_TRUE(request.has_value());
  EXPECT_EQ(request->requested, 101_MiB);
  EXPECT_EQ(request->short_by_at_least, 1_MiB);
  EXPECT_EQ(result.search.answer()->outcome.steps, 3);
  EXPECT_EQ(result.search.answer()->outcome.peaks.reserved, 100_MiB);
}

TEST(MaxBatchFinder, TakesATrial) {
  MaxBatchFinder finder(budgeted_cpu_device(10_MiB));
  std::vector<std::int64_t> step_indices;
  auto const result = finder.preserve_nothing().find([&](Trial& trial) {
    if (trial.batch_size() == 10) { step_indices.push_back(trial.step_index()); }
    trial.phase(Phase::forward, [&] { use_a_megabyte_each(trial.batch_size()); });
  });
  EXPECT_EQ(result.batch_size(), 10);
  EXPECT_THAT(step_indices, ::testing::ElementsAre(0, 1, 2));
  auto const& phases = result.search.answer()->outcome.phases;
  ASSERT_FALSE(phases.empty());
  EXPECT_EQ(phases.front().phase, Phase::forward);
}

TEST(MaxBatchFinder, TakesAFactoryAndChargesWhatItBuilds) {
  int built = 0;
  auto make_step = [&built](torch::Device device) {
    ++built;
    auto const weights = torch::empty({4 << 20}, torch::TensorOptions(torch::kByte).device(device));
    return [weights](Trial& trial) { use_a_megabyte_each(trial.batch_size()); };
  };
  auto const result = MaxBatchFinder(budgeted_cpu_device(20_MiB)).find(make_step);
  EXPECT_EQ(result.batch_size(), 16);
  EXPECT_EQ(built, static_cast<int>(result.search.trials.size()));  // anew for each trial
  EXPECT_THAT(result.warnings, IsEmpty());
}

TEST(MaxBatchFinder, AFactoryThatDoesNotFitIsNothingFits) {
  auto make_step = [](torch::Device) {
    auto const weights = torch::empty({64 << 20}, torch::kByte);
    return [weights](std::int64_t batch_size) { use_a_megabyte_each(batch_size); };
  };
  auto const result = MaxBatchFinder(budgeted_cpu_device(20_MiB)).find(make_step);
  EXPECT_EQ(result.batch_size(), std::nullopt);
  EXPECT_EQ(result.search.proof, Proof::nothing_fits);
  EXPECT_EQ(result.search.next_failure()->outcome.failed_request->phase, Phase::setup);
  EXPECT_THAT(result.summary(), HasSubstr("Nothing fits. 1 does not: setup asked for 64 MiB, at least 44 MiB short."));
}

TEST(MaxBatchFinder, APreparedStepIsBuiltOnceAndPutBackBetweenTrials) {
  int built = 0;
  auto prepare = [&built](torch::Device) {
    ++built;
    auto const training = std::make_shared<Training>();
    PreparedStep prepared;
    prepared.state.preserve(training->net);
    prepared.state.preserve(training->optimizer);
    prepared.step = [training](Trial& trial) {
      if (trial.step_index() == 0) { EXPECT_TRUE(training->optimizer.state().empty()); }
      training->step(trial);
    };
    return prepared;
  };
  auto const result = MaxBatchFinder(budgeted_cpu_device(2_MiB), from_two()).find(prepare);
  EXPECT_EQ(built, 1);
  EXPECT_EQ(result.search.proof, Proof::bracketed);
  EXPECT_THAT(result.warnings, IsEmpty());
}

TEST(MaxBatchFinder, ALiveModelIsCountedAndPutBackBitForBit) {
  Training training;
  auto const before = training.hash();
  MaxBatchFinder finder(budgeted_cpu_device(2_MiB), from_two());
  finder.preserve(training.net).preserve(training.optimizer);
  auto const result = finder.find([&](Trial& trial) { training.step(trial); });
  EXPECT_EQ(result.search.proof, Proof::bracketed);
  EXPECT_THAT(before.differences(training.hash()), IsEmpty());
  EXPECT_THAT(result.warnings, IsEmpty());
  // Parameters, their gradients and two moments each: 4 copies of about 19,000 floats are there at the least.
  EXPECT_GT(result.search.answer()->outcome.peaks.allocated, Bytes{4 * 19'000 * 4});
}

TEST(MaxBatchFinder, HeadroomIsLeftFreeWhileSearching) {
  FinderOptions options;
  options.headroom = 30_MiB;
  auto const device = budgeted_cpu_device(100_MiB);
  MaxBatchFinder finder(device, options);
  auto const result = finder.preserve_nothing().find(use_a_megabyte_each);
  EXPECT_EQ(result.batch_size(), 70);
  EXPECT_EQ(result.device.budget, 70_MiB);
  EXPECT_EQ(device->describe().budget, 100_MiB);  // given back
}

TEST(MaxBatchFinder, EvaluationBetweenTrainingStepsCounts) {
  // The optimizer's state of a megabyte appears in the first training step and stays; evaluation takes twice the batch.
  auto make_step = [](torch::Device) {
    return [state = at::Tensor()](Trial& trial) mutable {
      if (trial.mode() == StepMode::evaluate) {
        use_a_megabyte_each(2 * trial.batch_size());
        return;
      }
      use_a_megabyte_each(trial.batch_size());
      if (!state.defined()) { state = torch::empty({1 << 20}, torch::kByte); }
    };
  };
  EXPECT_EQ(MaxBatchFinder(budgeted_cpu_device(41_MiB)).find(make_step).batch_size(), 40);
  FinderOptions options;
  options.order = {StepMode::train, StepMode::evaluate, StepMode::train};
  auto const result = MaxBatchFinder(budgeted_cpu_device(41_MiB), options).find(make_step);
  EXPECT_EQ(result.batch_size(), 20);
  EXPECT_EQ(result.steps, 3);
}

TEST(MaxBatchFinder, TheStateOfALaterStepDecides) {  // lessons A 1, A 16: the second (tenth) step needs more
  auto make_step = [](torch::Device) {
    return [](Trial& trial) { use_a_megabyte_each(trial.batch_size() * (trial.step_index() == 9 ? 2 : 1)); };
  };
  FinderOptions options;
  options.steps = 10;
  EXPECT_EQ(MaxBatchFinder(budgeted_cpu_device(40_MiB), options).find(make_step).batch_size(), 20);
}

struct Mine : std::runtime_error {
  using std::runtime_error::runtime_error;
  int code = 17;
};

TEST(MaxBatchFinder, TheUsersExceptionPassesThroughAndTheStateIsAsBefore) {
  Training training;
  auto const before = training.hash();
  MaxBatchFinder finder(budgeted_cpu_device(64_MiB), from_two());
  finder.preserve(training.net).preserve(training.optimizer);
  try {
    finder.find([&](Trial& trial) {
      training.step(trial);
      throw Mine("shape mismatch");
    });
    ADD_FAILURE();
  } catch (Mine const& error) {
    EXPECT_EQ(error.code, 17);
    EXPECT_STREQ(error.what(), "shape mismatch");
  }
  EXPECT_THAT(before.differences(training.hash()), IsEmpty());
}

TEST(MaxBatchFinder, TheUsersExceptionAtALargerSizeIsTheReasonAndNoMemoryBound) {
  auto const result = MaxBatchFinder(budgeted_cpu_device(1_GiB)).preserve_nothing().find([](std::int64_t size) {
    if (size > 12) { throw std::out_of_range("the data set has 12 items"); }
    use_a_megabyte_each(size);
  });
  EXPECT_EQ(result.batch_size(), 12);
  EXPECT_EQ(result.search.proof, Proof::other_limit);
  EXPECT_THAT(result.summary(), HasSubstr("the data set has 12 items"));
}

TEST(MaxBatchFinder, AStepThatSwallowsTheFailureDoesNotFit) {
  auto const careless = [](std::int64_t size) {
    try {
      use_a_megabyte_each(size);
    } catch (c10::OutOfMemoryError const&) { torch::empty({16}); }  // "skip this batch"
  };
  auto const result = MaxBatchFinder(budgeted_cpu_device(20_MiB)).preserve_nothing().find(careless);
  EXPECT_EQ(result.batch_size(), 20);
  EXPECT_EQ(result.search.next_failure()->outcome.verdict, Verdict::swallowed_out_of_memory);
  EXPECT_THAT(result.warnings, Contains(HasSubstr("caught an out-of-memory failure and returned")));

  FinderOptions allow;
  allow.allow_swallowed_out_of_memory = true;
  allow.search.maximum = 64;
  EXPECT_EQ(MaxBatchFinder(budgeted_cpu_device(20_MiB), allow).preserve_nothing().find(careless).batch_size(), 64);
}

TEST(MaxBatchFinder, TorchScriptLosesTheTypeButNotTheVerdict) {
  auto const module = torch::jit::compile(R"JIT(
    def grow(x):
      # type: (Tensor) -> Tensor
      return x.repeat([1, 64])
  )JIT");
  auto const result = MaxBatchFinder(budgeted_cpu_device(8_MiB)).preserve_nothing().find([&](std::int64_t size) {
    module->run_method("grow", torch::ones({size, 1024}));
  });
  ASSERT_TRUE(result.batch_size().has_value());
  EXPECT_EQ(result.batch_size(), 8 * 1024 * 1024 / (65 * 4096));
  EXPECT_EQ(result.search.next_failure()->outcome.verdict, Verdict::out_of_memory);
}

TEST(MaxBatchFinder, AStepThatLeaksMoreEachTrialIsStoppedWithTheCause) {
  std::vector<at::Tensor> kept;
  auto const result = MaxBatchFinder(budgeted_cpu_device(1_GiB)).preserve_nothing().find([&kept](std::int64_t size) {
    kept.push_back(torch::empty({size, 1 << 16}, torch::kByte));
  });
  EXPECT_EQ(result.search.proof, Proof::best_so_far);
  EXPECT_THAT(result.search.reason, HasSubstr("still allocated after their clean-up"));
  EXPECT_THAT(result.warnings, Contains(HasSubstr("still allocated")));
}

TEST(MaxBatchFinder, AStepThatNeverRanIsAnError) {
  MaxBatchFinder finder(budgeted_cpu_device(1_MiB));
  EXPECT_THROW(finder.preserve_nothing().find([](std::int64_t) {}), StepNeverRan);
}

template <typename Call>
std::string refusal_of(Call const& call) {
  try {
    call();
  } catch (InvalidArgument const& error) { return error.what(); }
  return "accepted";
}

TEST(MaxBatchFinder, RefusesBeforeAnyStepRuns) {
  int steps = 0;
  auto const step = [&steps](Trial& trial) {
    ++steps;
    use_a_megabyte_each(trial.batch_size());
  };
  auto const by_size = [&steps](std::int64_t size) {
    ++steps;
    use_a_megabyte_each(size);
  };
  auto const device = budgeted_cpu_device(10_MiB);
  EXPECT_THAT(refusal_of([&] { MaxBatchFinder(nullptr); }), HasSubstr("needs a device"));
  EXPECT_THAT(refusal_of([&] { MaxBatchFinder(device).find(step); }), HasSubstr("finder.preserve(model)"));
  EXPECT_THAT(refusal_of([&] { MaxBatchFinder(device).preserve(torch::ones({1})).preserve_nothing().find(step); }),
              HasSubstr("one of them is a mistake"));
  FinderOptions options;
  options.steps = 0;
  EXPECT_THAT(refusal_of([&] { MaxBatchFinder(device, options); }), HasSubstr("steps is 0"));
  options = {};
  options.headroom = 10_MiB;
  EXPECT_THAT(refusal_of([&] { MaxBatchFinder(device, options).preserve_nothing().find(step); }),
              HasSubstr("a headroom of 10 MiB leaves nothing of 10 MiB"));
  options = {};
  options.search.minimum = 9;
  options.search.maximum = 8;
  EXPECT_THAT(refusal_of([&] { MaxBatchFinder(device, options).preserve_nothing().find(step); }),
              HasSubstr("minimum 9 is above maximum 8"));
  options = {};
  options.order = {StepMode::train, StepMode::evaluate};
  EXPECT_THAT(refusal_of([&] { MaxBatchFinder(device, options).preserve_nothing().find(by_size); }),
              HasSubstr("trial.mode()"));
  EXPECT_THAT(refusal_of([&] { MaxBatchFinder(device).preserve_nothing().find_input_size(by_size, {}); }),
              HasSubstr("trial.image_size()"));
  InputSizeOptions flat;
  flat.aspect_ratio = 0.5;
  EXPECT_THAT(refusal_of([&] { MaxBatchFinder(device).preserve_nothing().find_input_size(step, flat); }),
              HasSubstr("aspect_ratio is 0.5"));
  EXPECT_THAT(
      refusal_of([&] {
        MaxBatchFinder(device).preserve(torch::empty({1}, torch::TensorOptions().device(torch::kMeta))).find(step);
      }),
      ::testing::Not("accepted"));
  Training training;
  EXPECT_THAT(refusal_of([&] { MaxBatchFinder(device).preserve(training.optimizer).find(step); }),
              HasSubstr("params[0] would be trained and not put back"));
  EXPECT_EQ(steps, 0);
}

TEST(MaxBatchFinder, FindsTheLargestImageInBothOrientations) {
  std::vector<ImageSize> seen;
  auto const step = [&seen](Trial& trial) {
    auto const size = *trial.image_size();
    seen.push_back(size);
    torch::empty({trial.batch_size(), size.height, size.width}, torch::kByte);
  };
  InputSizeOptions options;
  options.batch_size = 4;
  options.aspect_ratio = 1333.0 / 800.0;
  auto const result = MaxBatchFinder(budgeted_cpu_device(4_MiB)).preserve_nothing().find_input_size(step, options);
  ASSERT_TRUE(result.largest.has_value());
  // By definition: the largest multiple of 32 whose image, padded to strides, fits four times into the budget.
  std::int64_t expected = 0;
  for (std::int64_t side = 32; 4 * side * ((side * 1333 + 800 * 32 - 1) / (800 * 32) * 32) <= 4 << 20; side += 32) {
    expected = side;
  }
  EXPECT_EQ(result.largest->height, expected);
  EXPECT_EQ(result.finder.search.proof, Proof::bracketed);
  EXPECT_EQ(result.next->height, expected + 32);
  ImageSize const portrait{result.largest->width, result.largest->height};
  EXPECT_THAT(seen, Contains(portrait));
  EXPECT_THAT(seen, Contains(*result.largest));
  EXPECT_THAT(result.summary(), HasSubstr(std::to_string(expected) + "x"));
}

TEST(MaxBatchFinder, SuggestsAccumulation) {
  auto const result = MaxBatchFinder(budgeted_cpu_device(24_MiB)).preserve_nothing().find(use_a_megabyte_each);
  EXPECT_EQ(result.batch_size(), 24);
  auto const plan = result.accumulation_for(64);
  ASSERT_TRUE(plan.has_value());
  EXPECT_EQ(plan->batch_size, 16);
  EXPECT_EQ(plan->count, 4);
  EXPECT_EQ(result.accumulation_for(7)->count, 1);
  EXPECT_EQ(result.accumulation_for(29)->batch_size, 1);  // a prime above the answer
  EXPECT_THROW(result.accumulation_for(0), InvalidArgument);
}

TEST(MaxBatchFinder, SaysTheAnswerInTwoSentences) {
  auto const result = MaxBatchFinder(budgeted_cpu_device(20_MiB)).preserve_nothing().find(use_a_megabyte_each);
  EXPECT_EQ(
      result.summary(),
      "20 fits: 3 steps, peak reserved 20 MiB of 20 MiB (bracketed). 21 does not: other asked for 21 MiB, at least 1 "
      "MiB short.");
}

// Which callables are steps: what must not compile is said here without compiling it.
static_assert(detail::is_step<void (*)(std::int64_t)>);
static_assert(detail::is_step<void (*)(Trial&)>);
static_assert(!detail::is_step<void (*)(int)>);
static_assert(!detail::is_step<void (*)(float)>);
static_assert(!detail::is_step<void (*)()>);
static_assert(!detail::is_step<void (*)(std::int64_t&)>);
struct TakesBoth {
  void operator()(Trial&) {}
  void operator()(std::int64_t) {}
};
static_assert(detail::takes_trial<TakesBoth> && !detail::takes_batch_size<TakesBoth>());
static_assert(detail::makes_step<std::function<void (*(torch::Device))(std::int64_t)>>());
static_assert(!detail::makes_step<int (*)(torch::Device)>());

}  // namespace
}  // namespace maxbatch
