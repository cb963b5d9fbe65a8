#include <maxbatch/gtest.hpp>
#include <maxbatch/models/small_cnn.hpp>

#include <torch/torch.h>

#include <gmock/gmock.h>
#include <gtest/gtest-spi.h>
#include <gtest/gtest.h>

#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

namespace maxbatch::test {
namespace {

using namespace maxbatch::literals;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

/// 4 KiB per sample in forward, nothing before, nothing after.
auto rows_step() {
  return [](c10::Device) {
    return [](Trial& trial) { trial.phase(Phase::forward, [&] { torch::empty({trial.batch_size(), 1024}); }); };
  };
}

std::string explanation_of(StepAt const& step, testing::Matcher<StepAt const&> const& matcher) {
  testing::StringMatchResultListener listener;
  matcher.MatchAndExplain(step, &listener);
  return listener.str();
}

TEST(FitsIn, IsExactToTheByte) {
  EXPECT_THAT(StepAt(rows_step(), 16), FitsIn(64_KiB));
  EXPECT_THAT(StepAt(rows_step(), 16), Not(FitsIn(64_KiB - 1_B)));
  EXPECT_THAT(StepAt(rows_step(), 17), Not(FitsIn(64_KiB)));
}

TEST(FitsIn, SaysWhatDidNotFitAndWhatWould) {
  EXPECT_EQ(
      explanation_of(StepAt(rows_step(), 20), FitsIn(64_KiB)),
      "where forward asked for 80 KiB, at least 16 KiB short, in step 1; peak 0 B; the largest batch that fits is 16");
  EXPECT_EQ(explanation_of(StepAt(rows_step(), 8), FitsIn(64_KiB)), "which does, peak 32 KiB: forward 32 KiB");
}

TEST(FitsIn, SaysThatAStepFailedForAnotherReason) {
  auto const broken = [](std::int64_t batch_size) {
    torch::empty({batch_size});
    throw std::runtime_error("shapes do not match");
  };
  EXPECT_THAT(explanation_of(StepAt(broken, 2), FitsIn(1_MiB)),
              AllOf(HasSubstr("it failed, not for memory, in step 1"), HasSubstr("shapes do not match")));
  EXPECT_THAT(explanation_of(StepAt([](std::int64_t) {}, 2), FitsIn(1_MiB)), HasSubstr("never ran"));
}

TEST(FitsIn, ReadsWellInAFailingTest) {
  EXPECT_NONFATAL_FAILURE(EXPECT_THAT(StepAt(rows_step(), 20), FitsIn(64_KiB)),
                          "Expected: fits in 64 KiB\n  Actual: a training step at batch size 20");
}

TEST(PeakAtMost, LooksAtAllPhases) {
  auto const step = [](Trial& trial) {
    trial.phase(Phase::forward, [&] { torch::empty({4096}, torch::kUInt8); });
    trial.phase(Phase::backward, [&] { torch::empty({8192}, torch::kUInt8); });
  };
  EXPECT_THAT(StepAt(step, 1), PeakAtMost(8_KiB));
  EXPECT_THAT(StepAt(step, 1), Not(PeakAtMost(8_KiB - 1_B)));
  EXPECT_EQ(explanation_of(StepAt(step, 1), PeakAtMost(6_KiB)),
            "whose peak 8 KiB: forward 4 KiB, backward 8 KiB; that is 2 KiB more");
}

TEST(Matchers, ShareTheirMeasurement) {
  int calls = 0;
  auto const step = [&calls](std::int64_t batch_size) {
    ++calls;
    torch::empty({batch_size});
  };
  EXPECT_THAT(StepAt(step, 4).steps(5), AllOf(PeakAtMost(1_KiB), LeaksNothing()));
  EXPECT_EQ(calls, 5);
}

TEST(LeaksNothing, HoldsForAModelWithItsOptimizer) { EXPECT_THAT(StepAt(models::small_cnn(), 2), LeaksNothing()); }

TEST(LeaksNothing, SeesWhatGrowsWithEachStep) {
  auto const make_step = [](c10::Device) {
    auto const losses = std::make_shared<std::vector<torch::Tensor>>();
    return [losses](Trial&) { losses->push_back(torch::empty({1024}, torch::kUInt8)); };
  };
  EXPECT_THAT(StepAt(make_step, 1), Not(LeaksNothing()));
  EXPECT_EQ(explanation_of(StepAt(make_step, 1), LeaksNothing()),
            "which holds 1 KiB more after each step (held after steps 1, 2, …: 1 KiB, 2 KiB, 3 KiB)");
}

TEST(LeaksNothing, SeesWhatOutlivesTheFactorysStep) {
  torch::Tensor kept;
  auto const make_step = [&kept](c10::Device) {
    return [&kept](Trial&) { kept = torch::empty({1024}, torch::kUInt8); };
  };
  EXPECT_THAT(explanation_of(StepAt(make_step, 1), LeaksNothing()), HasSubstr("which leaves 1 KiB allocated after"));
}

TEST(StepAt, CountsAndPutsBackALiveModel) {
  torch::nn::Linear model(1024, 256);  // 1 MiB and 1 KiB
  torch::optim::AdamW optimizer(model->parameters());
  auto const weight = model->weight.clone();
  auto const step = [&](std::int64_t batch_size) {
    optimizer.zero_grad();
    model->forward(torch::randn({batch_size, 1024})).square().mean().backward();
    optimizer.step();
  };
  auto const measured = StepAt(step, 1).preserve(model).preserve(optimizer).measure();
  EXPECT_GE(measured.outcome.peaks.allocated, 4_MiB) << "weights, gradients and two moments";
  EXPECT_TRUE(torch::equal(model->weight, weight));
  EXPECT_FALSE(model->weight.grad().defined());
  EXPECT_TRUE(optimizer.state().empty());
}

TEST(StepAt, SaysTheLargestBatchOfALiveModelOnlyWhereItIsPutBack) {
  torch::nn::Linear model(1024, 16);
  auto const step = [&](std::int64_t batch_size) {
    model->zero_grad();
    model->forward(torch::randn({batch_size, 1024})).sum().backward();
  };
  EXPECT_EQ(StepAt(step, 1000).largest_that_fits(1_MiB), std::nullopt);
  auto const largest = StepAt(step, 1000).preserve(model).largest_that_fits(1_MiB);
  ASSERT_TRUE(largest.has_value());
  EXPECT_THAT(StepAt(step, *largest).preserve(model), FitsIn(1_MiB));
  EXPECT_THAT(StepAt(step, *largest + 1).preserve(model), Not(FitsIn(1_MiB)));
}

}  // namespace
}  // namespace maxbatch::test
