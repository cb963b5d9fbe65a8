#include "support/scripted_probe.hpp"
#include <maxbatch/search/batch_size_search.hpp>
#include <maxbatch/search/phase_line_predictor.hpp>

#include <gmock/gmock.h>

#include <set>
#include <stdexcept>
#include <string>

namespace maxbatch {
namespace {

using test::ScriptedProbe;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST(BatchSizeSearch, FindsTheLastFittingSizeAndRunsItOnce) {
  auto const probe = ScriptedProbe::fits_up_to(37);
  auto const result = search_largest_batch_size(probe);
  EXPECT_EQ(result.batch_size, 37);
  EXPECT_EQ(result.proof, Proof::bracketed);
  EXPECT_EQ(result.next_batch_size, 38);
  EXPECT_EQ(probe.calls_at(37), 1);  // proves the probe ran: no vacuous pass
  EXPECT_EQ(probe.calls_at(38), 2);  // the next size failed twice
}

TEST(BatchSizeSearch, SaysThatNothingFitsWithItsCause) {
  auto const probe =
      ScriptedProbe([](std::int64_t, std::int64_t) { return TrialOutcome::out_of_memory("weights alone"); });
  auto const result = search_largest_batch_size(probe);
  EXPECT_EQ(result.batch_size, std::nullopt);
  EXPECT_EQ(result.proof, Proof::nothing_fits);
  EXPECT_THAT(result.reason, HasSubstr("weights alone"));
  EXPECT_THAT(probe.asked(), ElementsAre(1, 1));
  EXPECT_EQ(result.answer(), nullptr);
  ASSERT_NE(result.next_failure(), nullptr);
}

TEST(BatchSizeSearch, TheMaximumIsInclusiveAndRun) {
  SearchOptions options;
  options.maximum = 100;
  auto const probe = ScriptedProbe::fits_up_to(5000);
  auto const result = search_largest_batch_size(probe, options);
  EXPECT_EQ(result.batch_size, 100);
  EXPECT_EQ(result.proof, Proof::at_allowed_maximum);
  EXPECT_EQ(probe.calls_at(100), 1);
}

TEST(BatchSizeSearch, ALimitBelowTheMaximumIsFoundExactly) {  // Lightning returns 95 or 128 here (lessons, 1.2)
  SearchOptions options;
  options.maximum = 100;
  EXPECT_EQ(search_largest_batch_size(ScriptedProbe::fits_up_to(80), options).batch_size, 80);
  EXPECT_EQ(search_largest_batch_size(ScriptedProbe::fits_up_to(90), options).batch_size, 90);
}

TEST(BatchSizeSearch, EnoughStopsOnceItRan) {
  SearchOptions options;
  options.enough = 64;
  auto const probe = ScriptedProbe::fits_up_to(10000);
  auto const result = search_largest_batch_size(probe, options);
  EXPECT_EQ(result.batch_size, 64);
  EXPECT_EQ(result.proof, Proof::enough);
  EXPECT_LE(probe.asked().size(), 8u);
}

TEST(BatchSizeSearch, DivisorsOfAWantedBatchOnly) {
  SearchOptions options;
  options.divisor_of = 64;
  auto const probe = ScriptedProbe::fits_up_to(24);
  auto const result = search_largest_batch_size(probe, options);
  EXPECT_EQ(result.batch_size, 16);
  EXPECT_EQ(result.next_batch_size, 32);
  for (auto const size : probe.asked()) { EXPECT_EQ(64 % size, 0) << size; }
}

TEST(BatchSizeSearch, ASpuriousFailureIsForgivenAfterTwoPasses) {
  int flushes = 0;
  SearchOptions options;
  options.before_retry = [&flushes] { ++flushes; };
  auto const probe = ScriptedProbe([](std::int64_t size, std::int64_t call) {
    bool const spurious = size == 16 && call == 1;
    return size > 40 || spurious ? TrialOutcome::out_of_memory() : TrialOutcome::fits();
  });
  auto const result = search_largest_batch_size(probe, options);
  EXPECT_EQ(result.batch_size, 40);
  EXPECT_THAT(result.spurious_failures, ElementsAre(16));
  EXPECT_EQ(probe.calls_at(16), 3);
  EXPECT_EQ(flushes, 2);  // at 16 and at 41
}

TEST(BatchSizeSearch, OnePassAfterAFailureIsNotEnough) {
  auto const probe = ScriptedProbe([](std::int64_t size, std::int64_t call) {
    bool const flaky_pass = size == 11 && call == 2;
    return size > 10 && !flaky_pass ? TrialOutcome::out_of_memory() : TrialOutcome::fits();
  });
  auto const result = search_largest_batch_size(probe);
  EXPECT_EQ(result.batch_size, 10);
  EXPECT_EQ(result.proof, Proof::bracketed);
  EXPECT_THAT(result.spurious_failures, IsEmpty());
  EXPECT_EQ(probe.calls_at(11), 3);
}

TEST(BatchSizeSearch, LooksOverAGapWhenAsked) {  // fits = {1, 2, 4..16}: cuDNN's workspaces (lessons, D 55)
  auto const probe = ScriptedProbe([](std::int64_t size, std::int64_t) {
    return size == 3 || size > 16 ? TrialOutcome::out_of_memory() : TrialOutcome::fits();
  });
  SearchOptions options;
  options.maximum = 3;
  EXPECT_EQ(search_largest_batch_size(probe, options).batch_size, 2);
  options.maximum = 64;
  options.minimum = 2;
  options.probe_above = 3;
  struct SendsToThree : PeakPredictor {
    void observe(TrialRecord const&) override {}
    std::optional<Prediction> predict() const override { return Prediction{2, 2, 2}; }
  } predictor;
  auto const result = search_largest_batch_size(probe, options, &predictor);
  EXPECT_EQ(result.batch_size, 16);
  EXPECT_THAT(result.gaps, ElementsAre(3));
  EXPECT_EQ(result.proof, Proof::bracketed);
  EXPECT_GT(result.neighbour_trial_count(), 0);
}

TEST(BatchSizeSearch, AllSizesAboveTriedIsExhausted) {
  SearchOptions options;
  options.maximum = 12;
  options.probe_above = 100;
  auto const result = search_largest_batch_size(ScriptedProbe::fits_up_to(7), options);
  EXPECT_EQ(result.batch_size, 7);
  EXPECT_EQ(result.proof, Proof::exhausted);
}

TEST(BatchSizeSearch, PressureNearTheBoundaryMakesItLookAbove) {
  auto const probe = ScriptedProbe([](std::int64_t size, std::int64_t) {
    if (size > 20) { return TrialOutcome::out_of_memory(); }
    auto outcome = TrialOutcome::fits();
    if (size > 18) { outcome.verdict = Verdict::fits_under_pressure; }
    return outcome;
  });
  auto const result = search_largest_batch_size(probe);
  EXPECT_EQ(result.batch_size, 20);
  EXPECT_EQ(result.largest_clean_batch_size, 16);  // of those that were tried
  for (auto const above : {22, 23}) { EXPECT_GE(probe.calls_at(above), 1) << above; }
  SearchOptions clean;
  clean.require_clean = true;
  EXPECT_EQ(search_largest_batch_size(probe, clean).batch_size, 18);
}

TEST(BatchSizeSearch, AnExceptionAtTheSmallestSizePassesThroughUntouched) {
  struct Mine : std::runtime_error {
    explicit Mine(int with) : std::runtime_error("mine"), code(with) {}
    int code;
  };
  try {
    search_largest_batch_size([](std::int64_t) -> TrialOutcome { throw Mine(7); });
    ADD_FAILURE();
  } catch (Mine const& error) { EXPECT_EQ(error.code, 7); }
  EXPECT_THROW(search_largest_batch_size([](std::int64_t) -> TrialOutcome { throw 42; }), int);
}

TEST(BatchSizeSearch, AnExceptionAtALargerSizeBoundsTheAnswerButNotForMemory) {
  auto const result = search_largest_batch_size([](std::int64_t size) {
    if (size > 300) { throw std::out_of_range("the data set has 300 items"); }
    return TrialOutcome::fits();
  });
  EXPECT_EQ(result.batch_size, 300);
  EXPECT_EQ(result.proof, Proof::other_limit);
  EXPECT_THAT(result.reason, HasSubstr("the data set has 300 items"));
}

TEST(BatchSizeSearch, AMistakeOfTheStepSurfacesAtTheSmallestSizeAfterAFarPrediction) {
  struct Far : PeakPredictor {
    void observe(TrialRecord const&) override {}
    std::optional<Prediction> predict() const override { return Prediction{500, 500, 500}; }
  } predictor;
  EXPECT_THROW(
      search_largest_batch_size([](std::int64_t) -> TrialOutcome { throw std::domain_error("shape"); }, {}, &predictor),
      std::domain_error);
}

TEST(BatchSizeSearch, AStepThatNeverRanIsAnError) {
  auto const probe = [](std::int64_t) {
    auto outcome = TrialOutcome::fits();
    outcome.steps = 0;
    return outcome;
  };
  EXPECT_THROW(search_largest_batch_size(probe), StepNeverRan);
}

TEST(BatchSizeSearch, ALostDeviceEndsTheSearchWithTheBestSoFar) {
  auto const probe = ScriptedProbe([](std::int64_t size, std::int64_t) {
    auto outcome = TrialOutcome::fits();
    if (size > 8) { outcome.verdict = Verdict::device_lost; }
    return outcome;
  });
  auto const result = search_largest_batch_size(probe);
  EXPECT_EQ(result.batch_size, 8);
  EXPECT_EQ(result.proof, Proof::best_so_far);
  EXPECT_EQ(probe.asked().back(), 16);
  EXPECT_THAT(result.reason, HasSubstr("device was lost"));
}

TEST(BatchSizeSearch, LikelyMemoryIsMemoryOnlyBesideASmallerSizeThatRan) {
  auto const likely_above = [](std::int64_t limit) {
    return ScriptedProbe([limit](std::int64_t size, std::int64_t) {
      auto outcome = size > limit ? TrialOutcome::out_of_memory() : TrialOutcome::fits();
      if (size > limit) { outcome.verdict = Verdict::likely_out_of_memory; }
      return outcome;
    });
  };
  EXPECT_EQ(search_largest_batch_size(likely_above(5)).proof, Proof::bracketed);
  EXPECT_EQ(search_largest_batch_size(likely_above(0)).proof, Proof::other_limit);
}

TEST(BatchSizeSearch, BudgetsGiveTheBestSoFarAndSaySo) {
  SearchOptions few;
  few.max_trials = 4;
  auto const by_trials = search_largest_batch_size(ScriptedProbe::fits_up_to(1000), few);
  EXPECT_EQ(by_trials.batch_size, 8);
  EXPECT_EQ(by_trials.proof, Proof::best_so_far);
  EXPECT_THAT(by_trials.reason, HasSubstr("4 trials"));

  double seconds = 0;
  SearchOptions hasty;
  hasty.clock = [&seconds] { return seconds; };
  hasty.max_duration = std::chrono::seconds(10);
  auto const probe = ScriptedProbe([&seconds](std::int64_t size, std::int64_t) {
    seconds += 3;
    return size > 1000 ? TrialOutcome::out_of_memory() : TrialOutcome::fits();
  });
  auto const by_time = search_largest_batch_size(probe, hasty);
  EXPECT_EQ(by_time.batch_size, 8);  // four trials of 3 s: the last began at 9 s
  EXPECT_EQ(by_time.proof, Proof::best_so_far);
  EXPECT_DOUBLE_EQ(by_time.seconds, 12);
}

TEST(BatchSizeSearch, ABudgetThatEndsBeforeTheSecondFailureIsNoBracket) {
  SearchOptions options;
  options.max_trials = 2;
  auto const result = search_largest_batch_size(ScriptedProbe::fits_up_to(1), options);
  EXPECT_EQ(result.batch_size, 1);
  EXPECT_EQ(result.proof, Proof::best_so_far);
}

TEST(BatchSizeSearch, TellsTheObserverOfEveryTrialAndObeysItsStop) {
  struct Watch : SearchObserver {
    std::vector<std::int64_t> started;
    std::vector<std::int64_t> finished;
    std::size_t stop_after = 1000;
    void trial_started(std::int64_t size, TrialPurpose, SearchProgress const& progress) override {
      EXPECT_EQ(progress.trials_so_far, static_cast<std::int64_t>(started.size()));
      started.push_back(size);
    }
    void trial_finished(TrialRecord const& record) override { finished.push_back(record.batch_size); }
    bool stop_requested() override { return finished.size() >= stop_after; }
  } watch;
  auto const probe = ScriptedProbe::fits_up_to(20);
  auto const result = search_largest_batch_size(probe, {}, nullptr, &watch);
  EXPECT_EQ(watch.started, probe.asked());
  EXPECT_EQ(watch.finished, probe.asked());
  EXPECT_EQ(result.trials.size(), probe.asked().size());

  watch = Watch{};
  watch.stop_after = 3;
  EXPECT_EQ(search_largest_batch_size(probe, {}, nullptr, &watch).proof, Proof::best_so_far);
  EXPECT_EQ(watch.finished.size(), 3u);
}

TEST(BatchSizeSearch, AStepThatIgnoresItsBatchSizeIsPointedOut) {
  auto const result = search_largest_batch_size([](std::int64_t) { return TrialOutcome::fits(); });
  EXPECT_EQ(result.proof, Proof::at_allowed_maximum);
  EXPECT_THAT(result.reason, HasSubstr("does the step use its batch size?"));
}

TEST(BatchSizeSearch, ARehearsedAnswerNeedsThreeTrials) {
  struct Rehearsed : PeakPredictor {
    void observe(TrialRecord const&) override {}
    std::optional<Prediction> predict() const override { return Prediction{22, 22, 22}; }
  } predictor;
  auto const probe = ScriptedProbe::fits_up_to(22);
  EXPECT_EQ(search_largest_batch_size(probe, {}, &predictor).batch_size, 22);
  EXPECT_THAT(probe.asked(), ElementsAre(22, 23, 23));
}

TEST(BatchSizeSearch, TriesTheSizesFirstThatAPredictorLearnsMostFrom) {
  struct Curious : PeakPredictor {
    void observe(TrialRecord const&) override {}
    std::optional<Prediction> predict() const override { return std::nullopt; }
    std::vector<std::int64_t> scouts() const override { return {2, 3}; }  // never content
  } predictor;
  for (std::int64_t largest = 1; largest <= 20; ++largest) {
    auto const probe = ScriptedProbe::fits_up_to(largest);
    EXPECT_EQ(search_largest_batch_size(probe, {}, &predictor).batch_size, largest);
    ASSERT_GE(probe.asked().size(), 2U);
    EXPECT_EQ(probe.asked()[0], 2);
    EXPECT_EQ(probe.asked()[1], largest == 1 ? 1 : 3) << "inside the bracket only";
  }
  SearchOptions options;
  options.multiple_of = 3;
  auto const probe = ScriptedProbe::fits_up_to(20);
  EXPECT_EQ(search_largest_batch_size(probe, options, &predictor).batch_size, 18);
  EXPECT_EQ(probe.asked()[0], 3) << "2 is not allowed";
}

TEST(BatchSizeSearch, RefusesBudgetsThatCannotBeMet) {
  auto const probe = ScriptedProbe::fits_up_to(1);
  SearchOptions options;
  options.max_trials = 0;
  EXPECT_THROW(search_largest_batch_size(probe, options), InvalidArgument);
  options = {};
  options.max_duration = std::chrono::seconds(0);
  EXPECT_THROW(search_largest_batch_size(probe, options), InvalidArgument);
  options = {};
  options.probe_above = -1;
  EXPECT_THROW(search_largest_batch_size(probe, options), InvalidArgument);
  EXPECT_THROW(search_largest_batch_size(nullptr), InvalidArgument);
  EXPECT_THAT(probe.asked(), IsEmpty());
}

}  // namespace
}  // namespace maxbatch
