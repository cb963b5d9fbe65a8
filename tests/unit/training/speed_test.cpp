#include <maxbatch/device/budgeted_cpu_device.hpp>
#include <maxbatch/search/errors.hpp>
#include <maxbatch/training/speed.hpp>

#include <ATen/ops/empty.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <memory>
#include <stdexcept>
#include <thread>
#include <utility>
#include <vector>

namespace maxbatch::test {
namespace {

using namespace maxbatch::literals;
using testing::HasSubstr;
using testing::ThrowsMessage;

/// Takes 4 KiB and 1 ms a sample in training, 0.2 ms a sample and 1 ms for the step in inference; the first step of each
/// kind takes 50 ms more.
ModelFactory sleeper(std::shared_ptr<std::map<std::pair<StepMode, std::int64_t>, int>> const& calls) {
  ModelFactory model;
  model.name = "sleeper";
  model.make = [calls](c10::Device, Recipe const&) {
    PreparedStep prepared;
    auto const is_first = std::make_shared<bool>(true);
    prepared.step = [=](Trial& trial) {
      ++(*calls)[{trial.mode(), trial.batch_size()}];
      auto const memory = at::empty({trial.batch_size(), 1024}, at::kFloat);
      auto const samples = trial.batch_size();
      auto const us = trial.mode() == StepMode::train ? 1000 * samples : 1000 + 200 * samples;
      std::this_thread::sleep_for(std::chrono::microseconds(us + (*is_first ? 50000 : 0)));
      *is_first = false;
    };
    return prepared;
  };
  return model;
}

class Speed : public testing::Test {
 protected:
  SpeedResult measure(SpeedOptions const& options, Bytes budget = 1_MiB, Recipe const& recipe = {}) {
    auto const device = budgeted_cpu_device(budget);
    return measure_speed(*device, sleeper(calls), recipe, options);
  }

  static SpeedOptions quick(std::vector<std::int64_t> sizes = {}) {
    SpeedOptions options;
    options.batch_sizes = std::move(sizes);
    options.round_seconds = 0.01;
    options.warm_up = 2;
    options.rounds = 3;
    return options;
  }

  std::shared_ptr<std::map<std::pair<StepMode, std::int64_t>, int>> calls =
      std::make_shared<std::map<std::pair<StepMode, std::int64_t>, int>>();
};

TEST_F(Speed, IsTheMedianOfRoundsWithoutTheWarmUp) {
  auto const result = measure(quick({8, 1, 8}));
  ASSERT_EQ(result.sizes.size(), 2U);
  auto const& one = result.sizes[0];
  auto const& eight = result.sizes[1];
  EXPECT_EQ(one.batch_size, 1);
  EXPECT_EQ(eight.batch_size, 8);
  ASSERT_EQ(eight.training_times->seconds.size(), 3U);
  // Sleeping takes longer than asked for, on a busy machine much longer; never less. The first step's 50 ms would show.
  EXPECT_GE(eight.training_times->fastest(), 8e-3);
  EXPECT_LT(eight.training_times->fastest(), 40e-3);
  EXPECT_LE(*eight.training_rate(), 1000);
  EXPECT_GT(*eight.training_rate(), 200);
  EXPECT_GT(*eight.inference_rate(), *one.inference_rate());
  EXPECT_EQ(eight.training.peaks.allocated, 32_KiB);
  EXPECT_GE(result.latency->median(), 1.2e-3);
  EXPECT_EQ(result.latency->steps_per_round, 1);
}

TEST_F(Speed, RunsAsManyStepsARoundAsItsSecondsHold) {
  auto options = quick({1});
  options.round_seconds = 0.05;
  auto const result = measure(options);
  // Training sleeps 1 ms, and a machine at work makes a few of it.
  EXPECT_GT(result.sizes[0].training_times->steps_per_round, 3);
  EXPECT_LE(result.sizes[0].training_times->steps_per_round, 50);
  EXPECT_EQ((*calls)[std::pair(StepMode::train, std::int64_t{1})],
            2 + 3 * result.sizes[0].training_times->steps_per_round);
}

TEST_F(Speed, CountsAccumulatedSamples) {
  Recipe recipe;
  recipe.accumulation = 4;
  EXPECT_EQ(measure(quick({2}), 1_MiB, recipe).sizes[0].samples_per_training_step, 8);
}

TEST_F(Speed, EndsWhereMemoryDoes) {
  auto const result = measure(quick(), 20_KiB);
  ASSERT_EQ(result.sizes.size(), 4U);
  EXPECT_EQ(result.sizes[2].batch_size, 4);
  EXPECT_TRUE(result.sizes[2].training_times);
  EXPECT_EQ(result.sizes[3].training.verdict, Verdict::out_of_memory);
  EXPECT_FALSE(result.sizes[3].training_rate());
}

TEST_F(Speed, GoesUpToALargestSizeAndMeasuresIt) {
  auto options = quick();
  options.largest = 6;
  auto const result = measure(options);
  std::vector<std::int64_t> sizes;
  for (auto const& size : result.sizes) { sizes.push_back(size.batch_size); }
  EXPECT_EQ(sizes.back(), 6);
  EXPECT_EQ(sizes.front(), 1);
  EXPECT_EQ(std::count(sizes.begin(), sizes.end(), 6), 1);
  EXPECT_TRUE(std::is_sorted(sizes.begin(), sizes.end()));
  EXPECT_EQ(result.at(6), &result.sizes.back());
  EXPECT_EQ(result.at(5), nullptr);
}

TEST_F(Speed, HasItsKneeAtTheSmallestSizeThatIsAsGood) {
  SpeedResult result;
  for (auto const& [size, seconds] : {std::pair(1, 0.1), std::pair(2, 0.11), std::pair(4, 0.2), std::pair(8, 0.39)}) {
    auto& at = result.sizes.emplace_back();
    at.batch_size = at.samples_per_training_step = size;
    at.training_times = StepTimes{{9, seconds, 0.01}, 1};
  }
  EXPECT_EQ(result.training_knee(), 4);  // 10, 18, 20, 20.5 a second
  EXPECT_EQ(result.inference_knee(), std::nullopt);
}

TEST_F(Speed, LetsOtherFailuresThrough) {
  ModelFactory model;
  model.name = "broken";
  model.make = [](c10::Device, Recipe const&) {
    PreparedStep prepared;
    prepared.step = [](Trial&) {
      at::empty({1}, at::kFloat);
      throw std::runtime_error("a step that fails");
    };
    return prepared;
  };
  auto const device = budgeted_cpu_device(1_MiB);
  EXPECT_THAT([&] { measure_speed(*device, model, {}, quick({1})); },
              ThrowsMessage<std::runtime_error>(HasSubstr("a step that fails")));
}

TEST_F(Speed, RefusesOptionsThatMeasureNothing) {
  auto const refused = [&](auto const& change, char const* text) {
    auto options = quick({1});
    change(options);
    EXPECT_THAT([&] { measure(options); }, ThrowsMessage<InvalidArgument>(HasSubstr(text)));
  };
  refused([](SpeedOptions& options) { options.batch_sizes = {0}; }, "a batch of 0 has no speed");
  refused([](SpeedOptions& options) { options.largest = 0; }, "a batch of 0 has no speed");
  refused([](SpeedOptions& options) { options.rounds = 0; }, "rounds is 0");
  refused([](SpeedOptions& options) { options.warm_up = 0; }, "warm_up is 0");
  refused([](SpeedOptions& options) { options.round_seconds = 0; }, "round_seconds is 0");
  EXPECT_TRUE(calls->empty());
}

}  // namespace
}  // namespace maxbatch::test
