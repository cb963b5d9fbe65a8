#include "support/memory_laws.hpp"
#include "support/peer_rules.hpp"
#include "support/scripted_probe.hpp"
#include <maxbatch/search/batch_size_search.hpp>
#include <maxbatch/search/phase_line_predictor.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <random>
#include <vector>

namespace maxbatch {
namespace {

using namespace test;

constexpr double kMiB = 1 << 20;
constexpr std::int64_t kSegment = std::int64_t{20} << 20;

struct Counts {
  std::vector<std::int64_t> trials;

  std::int64_t quantile(double share) {
    std::sort(trials.begin(), trials.end());
    return trials[static_cast<std::size_t>(share * static_cast<double>(trials.size() - 1))];
  }
  void print(char const* what) {
    std::printf("%-58s median %2ld, 90 %% %2ld, worst %2ld of %zu\n", what, static_cast<long>(quantile(0.5)),
                static_cast<long>(quantile(0.9)), static_cast<long>(quantile(1)), trials.size());
  }
};

TEST(TrialCount, ExactlyAffineMemoryTakesAtMostSix) {
  Counts all;
  for (double const slope : {1.0, 512.0, 1e5, 20 * kMiB, 381 * kMiB}) {
    for (double const floor : {0.0, 1e6, 2.5e9}) {
      for (std::int64_t limit = 1; limit <= 8192; ++limit) {
        auto const law = [=](std::int64_t size) {
          return std::vector<PhasePeaks>{
              phase_at(Phase::backward, static_cast<std::int64_t>(floor + slope * static_cast<double>(size)))};
        };
        Bytes const budget{law(limit).front().peaks.reserved.count + static_cast<std::int64_t>(slope / 3)};
        PhaseLinePredictor predictor(budget);
        auto const result =
            search_largest_batch_size(ScriptedProbe::of_memory(law, budget, limit % 2 == 0), {}, &predictor);
        ASSERT_EQ(result.batch_size, limit);
        ASSERT_EQ(result.proof, Proof::bracketed);
        ASSERT_LE(result.trial_count(), 6) << "limit " << limit << ", slope " << slope << ", floor " << floor;
        all.trials.push_back(result.trial_count());
      }
    }
  }
  all.print("exactly affine, limits 1 to 8192:");
}

/// Two phases, each affine and rounded up to 20 MiB, that cross anywhere below half the limit.
Counts count_kinked(double least_slope_mib, double most_slope_mib, bool tells_phases, int rounds) {
  std::mt19937_64 random(7);
  auto const uniform = [&random](double low, double high) {
    return std::uniform_real_distribution<double>(low, high)(random);
  };
  Counts counts;
  while (static_cast<int>(counts.trials.size()) < rounds) {
    auto const wanted = static_cast<std::int64_t>(std::exp(uniform(0, std::log(8192.0))));
    auto const slope = std::exp(uniform(std::log(least_slope_mib), std::log(most_slope_mib))) * kMiB;
    auto const floor = uniform(0, 4e9);
    auto const kink = uniform(0, static_cast<double>(wanted) / 2);
    auto const flatter = slope * uniform(0, 1) * uniform(0, 1);
    auto const law = [=](std::int64_t size) {
      auto const x = static_cast<double>(size);
      return std::vector<PhasePeaks>{
          phase_at(Phase::optimizer, rounded_up(floor + (slope - flatter) * kink + flatter * x, kSegment)),
          phase_at(Phase::backward, rounded_up(floor + slope * x, kSegment))};
    };
    auto const peak = [&law](std::int64_t size) {
      auto const phases = law(size);
      return std::max(phases[0].peaks.reserved, phases[1].peaks.reserved);
    };
    Bytes const budget{peak(wanted).count + static_cast<std::int64_t>(uniform(0, 20 * kMiB - 1))};
    auto limit = wanted;
    while (peak(limit + 1) <= budget) { ++limit; }
    PhaseLinePredictor predictor(budget);
    auto const result = search_largest_batch_size(ScriptedProbe::of_memory(law, budget, tells_phases), {}, &predictor);
    EXPECT_EQ(result.batch_size, limit);
    counts.trials.push_back(result.trial_count());
  }
  return counts;
}

TEST(TrialCount, AKinkAndRoundingTakeSixInTheMedianAndNineAtWorst) {
  auto all = count_kinked(8, 1024, true, 20000);
  all.print("kink below half the limit, 20 MiB steps, by phase:");
  EXPECT_LE(all.quantile(0.5), 6);
  EXPECT_LE(all.quantile(1), 9);
  // For the record, not a bar: below 8 MiB an image several sizes share each 20 MiB step, and no reading tells them apart;
  // a total alone hides the phase that grows behind the one that does not.
  count_kinked(2, 8, true, 4000).print("  the same with 2 to 8 MiB a sample:");
  count_kinked(0.5, 2, true, 4000).print("  the same with 0.5 to 2 MiB a sample:");
  count_kinked(8, 1024, false, 4000).print("  the same, totals only:");
}

TEST(TrialCount, WithoutAnyPredictionTwiceTheLogarithmPlusFour) {
  Counts all;
  for (std::int64_t limit = 1; limit <= 100000; limit += limit < 9000 ? 1 : 37) {
    auto const result = search_largest_batch_size(ScriptedProbe::fits_up_to(limit));
    ASSERT_EQ(result.batch_size, limit);
    ASSERT_LE(result.trial_count(),
              2 * static_cast<std::int64_t>(std::ceil(std::log2(static_cast<double>(limit)))) + 4);
    all.trials.push_back(result.trial_count());
  }
  all.print("no prediction at all, limits 1 to 100,000:");
}

/// Peers' rules need a pass or a fail only. Their counts for these limits are those of docs/lessons.md, section 4.
TEST(TrialCount, BesideThePeers) {
  EXPECT_EQ(lightning_binary_search(12, 2).trials, 7);
  EXPECT_EQ(lightning_binary_search(19, 2).trials, 9);
  EXPECT_EQ(lightning_binary_search(1001, 2).trials, 19);
  std::printf("%8s | %-18s | %-26s | %-26s\n", "limit", "maxbatch", "Lightning binsearch from 2",
              "Accelerate from 128");
  for (std::int64_t const limit : {1, 3, 6, 12, 19, 22, 64, 100, 127, 1001, 8192}) {
    auto const law = [](std::int64_t size) {
      return std::vector<PhasePeaks>{phase_at(Phase::backward, 4'000'000'000 + 381'000'000 * size)};
    };
    Bytes const budget{law(limit).front().peaks.reserved.count + 1000};
    PhaseLinePredictor predictor(budget);
    auto const ours = search_largest_batch_size(ScriptedProbe::of_memory(law, budget), {}, &predictor);
    auto const lightning = lightning_binary_search(limit, 2);
    auto const accelerate = accelerate_from(limit, 128);
    std::printf("%8ld | %8ld in %2ld     | %8ld in %2ld             | %8ld in %2ld\n", static_cast<long>(limit),
                static_cast<long>(ours.batch_size.value_or(0)), static_cast<long>(ours.trial_count()),
                static_cast<long>(lightning.batch_size), static_cast<long>(lightning.trials),
                static_cast<long>(accelerate.batch_size), static_cast<long>(accelerate.trials));
    EXPECT_EQ(ours.batch_size, limit);
  }
}

}  // namespace
}  // namespace maxbatch
