#include "support/synthetic_program.hpp"
#include <maxbatch/search/batch_size_search.hpp>
#include <maxbatch/search/phase_line_predictor.hpp>
#include <maxbatch/simulation/program_run.hpp>
#include <maxbatch/training/replay_predictor.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <optional>
#include <string>

namespace maxbatch {
namespace {

using ::testing::HasSubstr;

using namespace literals;

TrialRecord trial(std::int64_t batch_size, Verdict verdict) {
  TrialRecord record;
  record.batch_size = batch_size;
  record.outcome.verdict = verdict;
  return record;
}

PredictionTarget under(Bytes limit) {
  PredictionTarget target;
  target.limit = limit;
  return target;
}

/// A device on which the program itself is run, at any size, and recorded.
class SimulatedTraining {
 public:
  SimulatedTraining(std::uint64_t seed, Bytes limit) : program_(seed), predictor_(under(limit), &line_), line_(limit) {
    options_.limit = limit;
    options_.placement.seed = 1;
  }

  SearchResult search() {
    return search_largest_batch_size(
        [this](std::int64_t batch_size) {
          auto const program = program_.at(batch_size);
          auto const events = driver_events_of(program);
          auto const run = run_program(program, events, options_);
          if (!run.fits) { return TrialOutcome::out_of_memory(); }
          predictor_.add_recording(batch_size, trace_of_run(program, events, options_));
          return TrialOutcome::fits(MemoryPeaks::all(run.reserved_peak));
        },
        {}, &predictor_);
  }
  ReplayPredictor const& predictor() const { return predictor_; }

 private:
  test::SyntheticProgram program_;
  ProgramRunOptions options_;
  ReplayPredictor predictor_;
  PhaseLinePredictor line_;
};

TEST(ReplayPredictor, ASearchHasItsAnswerAfterItsScouts) {
  int searches = 0;
  int few = 0;
  for (std::uint64_t seed = 1; seed <= 30; ++seed) {
    SimulatedTraining training(seed, 6000_MiB);
    auto const result = training.search();
    if (!result.batch_size || *result.batch_size < 20) { continue; }
    ++searches;
    // Two scouts, the answer, the next size twice, and what is tried above under pressure.
    if (result.trials.size() <= 7) { ++few; }
    EXPECT_EQ(training.predictor().problem(), "") << "seed " << seed;
  }
  EXPECT_GE(searches, 10);
  EXPECT_GE(few * 10, searches * 9) << few << " of " << searches;
}

TEST(ReplayPredictor, KnowsNothingFromOneRecording) {
  ReplayPredictor predictor(under(1_GiB));
  EXPECT_EQ(predictor.predict(), std::nullopt);
  auto const program = test::SyntheticProgram(3).at(2);
  predictor.add_recording(2, trace_of_run(program, {}));
  predictor.add_recording(2, trace_of_run(program, {}));
  EXPECT_EQ(predictor.predict(), std::nullopt);
}

TEST(ReplayPredictor, TrialsNearThePredictionMoveIt) {
  test::SyntheticProgram const program(3);
  ReplayPredictor predictor(under(8000_MiB));
  for (int const size : {2, 3}) { predictor.add_recording(size, trace_of_run(program.at(size), {})); }
  auto const first = predictor.predict();
  ASSERT_TRUE(first);
  ASSERT_GT(first->best, 20);
  predictor.observe(trial(first->best, Verdict::out_of_memory));
  auto const second = predictor.predict();
  ASSERT_TRUE(second);
  EXPECT_EQ(second->best, first->best - 1);
  predictor.observe(trial(first->best / 2, Verdict::out_of_memory));
  EXPECT_EQ(predictor.predict(), std::nullopt) << "far from it, and there is nothing else to ask";
}

TEST(ReplayPredictor, SaysWhatIsWrongWithRecordings) {
  ReplayPredictor predictor(under(1_GiB));
  predictor.add_recording(2, trace_of_run(test::SyntheticProgram(3).at(2), {}));
  predictor.add_recording(3, trace_of_run(test::SyntheticProgram(4).at(3), {}));
  EXPECT_EQ(predictor.predict(), std::nullopt);
  EXPECT_THAT(predictor.problem(), HasSubstr("not of one program"));
}

}  // namespace
}  // namespace maxbatch
