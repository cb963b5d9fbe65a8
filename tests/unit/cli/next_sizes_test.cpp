#include "cli/next_sizes.hpp"

#include <maxbatch/search/batch_size_search.hpp>
#include <maxbatch/search/phase_line_predictor.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

namespace maxbatch::cli {
namespace {

constexpr Bytes kLimit{1000};

TrialOutcome outcome_of(std::int64_t size) {
  Bytes const peak{100 + 40 * size};
  return peak <= kLimit ? TrialOutcome::fits(MemoryPeaks::all(peak)) : TrialOutcome::out_of_memory();
}

MakePredictor lines() {
  return [] { return std::make_unique<PhaseLinePredictor>(kLimit); };
}

/// What a search asks in turn, and how much of it had been planned while the trial before ran.
TEST(NextSizes, TheFirstIsWhatTheSearchAsksNext) {
  KnownTrials known;
  std::map<std::int64_t, std::size_t> asked;
  PhaseLinePredictor predictor(kLimit);
  std::int64_t trials = 0;
  auto const probe = [&](std::int64_t size) {
    TrialKey const key{size, asked[size]++};
    auto const planned = next_trials({}, known, kLimit, lines(), 1);
    EXPECT_EQ(planned.size(), 1U);
    EXPECT_EQ(planned.front().size, size);
    EXPECT_EQ(planned.front().number, key.number);
    ++trials;
    return known[key] = outcome_of(size);
  };
  auto const result = search_largest_batch_size(probe, {}, &predictor, nullptr);
  EXPECT_EQ(result.batch_size, 22);
  EXPECT_GE(trials, 5);
}

TEST(NextSizes, MostOfWhatASearchAsksWasPlannedBesideTheTrialBefore) {
  KnownTrials known;
  std::map<std::int64_t, std::size_t> asked;
  std::set<TrialKey> planned;
  PhaseLinePredictor predictor(kLimit);
  std::int64_t waited_for = 0;
  auto const probe = [&](std::int64_t size) {
    TrialKey const key{size, asked[size]++};
    if (planned.count(key) == 0) {
      ++waited_for;
      for (auto const& next : next_trials({}, known, kLimit, lines(), 2)) { planned.insert(next); }
    }
    return known[key] = outcome_of(size);
  };
  auto const result = search_largest_batch_size(probe, {}, &predictor, nullptr);
  EXPECT_EQ(result.batch_size, 22);
  EXPECT_LT(waited_for, static_cast<std::int64_t>(result.trials.size()));
}

TEST(NextSizes, ASearchThatIsOverAsksForNothing) {
  KnownTrials known;
  SearchOptions options;
  options.maximum = 1;
  known[{1, 0}] = TrialOutcome::fits(MemoryPeaks::all(Bytes{1}));
  EXPECT_TRUE(next_trials(options, known, kLimit, lines(), 4).empty());
}

TEST(NextSizes, NoMoreThanAsked) {
  EXPECT_EQ(next_trials({}, {}, kLimit, lines(), 3).size(), 3U);
  EXPECT_TRUE(next_trials({}, {}, kLimit, lines(), 0).empty());
}

}  // namespace
}  // namespace maxbatch::cli
