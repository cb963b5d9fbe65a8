#include "support/scripted_probe.hpp"
#include <maxbatch/search/errors.hpp>
#include <maxbatch/search/phase_line_predictor.hpp>

#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <sstream>
#include <string>

namespace maxbatch {
namespace {

using namespace literals;

TrialRecord fit(std::int64_t size, MemoryPeaks peaks, std::vector<PhasePeaks> phases = {}) {
  TrialRecord record;
  record.batch_size = size;
  record.outcome = TrialOutcome::fits(peaks, std::move(phases));
  return record;
}

std::map<std::int64_t, MemoryPeaks> swin_large_peaks() {
  std::map<std::int64_t, MemoryPeaks> peaks;
  std::ifstream file(MAXBATCH_TEST_DATA_DIR "/swin_large_peaks.csv");
  for (std::string line; std::getline(file, line);) {
    std::istringstream fields(line);
    std::int64_t size = 0;
    std::int64_t allocated = 0;
    std::int64_t reserved = 0;
    char comma = 0;
    if (fields >> size >> comma >> allocated >> comma >> reserved) {
      peaks[size] = {Bytes{allocated}, Bytes{allocated}, Bytes{allocated}, Bytes{reserved}};
    }
  }
  return peaks;
}

/// Swin-L under a cap of 10,700 MiB fits 22 images (docs/seed.md). Its optimizer sets a floor up to four.
TEST(PhaseLinePredictor, TakesNoMeaninglessSlopeFromSwinsFloor) {
  auto const peaks = swin_large_peaks();
  ASSERT_EQ(peaks.size(), 7u);
  for (bool const only_reserved : {false, true}) {
    for (auto const& first : {std::vector<std::int64_t>{1, 2}, {1, 2, 4}, {1, 3, 4}, {1, 2, 3, 4}}) {
      PhaseLinePredictor predictor(10700_MiB);
      for (auto const size : first) {
        auto const all = only_reserved ? MemoryPeaks::all(peaks.at(size).reserved) : peaks.at(size);
        predictor.observe(fit(size, all));
      }
      auto const prediction = predictor.predict();
      // The floor says nothing of the boundary: either no prediction, or one that is sure to fit, without an upper end.
      if (prediction) {
        EXPECT_LE(prediction->best, 22) << "after " << first.size() << " sizes";
        EXPECT_FALSE(prediction->at_most.has_value());
      }
    }
    PhaseLinePredictor predictor(10700_MiB);
    for (auto const& [size, both] : peaks) {
      predictor.observe(fit(size, only_reserved ? MemoryPeaks::all(both.reserved) : both));
    }
    auto const prediction = predictor.predict();
    ASSERT_TRUE(prediction.has_value());
    EXPECT_GE(prediction->best, 19);
    EXPECT_LE(prediction->best, 24);
  }
}

TEST(PhaseLinePredictor, FitsALinePerPhase) {
  PhaseLinePredictor predictor(1000_B);
  for (std::int64_t const size : {1, 2}) {
    predictor.observe(fit(size, MemoryPeaks::all(Bytes{401}),
                          {test::phase_at(Phase::optimizer, 401), test::phase_at(Phase::backward, 101 + 10 * size)}));
  }
  auto const prediction = predictor.predict();
  ASSERT_TRUE(prediction.has_value());
  EXPECT_EQ(prediction->best, 32);  // at most 16 times what ran: the rest is for a third reading
  predictor.observe(fit(32, MemoryPeaks::all(Bytes{421}),
                        {test::phase_at(Phase::optimizer, 401), test::phase_at(Phase::backward, 421)}));
  EXPECT_EQ(predictor.predict()->best, 89);
  EXPECT_EQ(predictor.predict()->at_most, 89);
}

TEST(PhaseLinePredictor, KnowsNothingBeforeTheFirstTrialNorFromUnmeasuredOnes) {
  PhaseLinePredictor predictor(1_GiB);
  EXPECT_FALSE(predictor.predict().has_value());
  predictor.observe(fit(1, MemoryPeaks{}));
  predictor.observe(fit(2, MemoryPeaks{}));
  EXPECT_FALSE(predictor.predict().has_value());
}

TEST(PhaseLinePredictor, NeverPredictsFromAFallingPeak) {
  PhaseLinePredictor predictor(1000_MiB);
  predictor.observe(fit(1, MemoryPeaks::all(600_MiB)));
  predictor.observe(fit(2, MemoryPeaks::all(560_MiB)));
  EXPECT_FALSE(predictor.predict().has_value());
}

TEST(PhaseLinePredictor, CountsInSquaresForImageSides) {
  PhaseLinePredictor predictor(Bytes{1000 + 7 * 500 * 500}, 2.0);
  for (std::int64_t const side : {100, 150, 200}) {
    predictor.observe(fit(side, MemoryPeaks::all(Bytes{1000 + 7 * side * side})));
  }
  ASSERT_TRUE(predictor.predict().has_value());
  EXPECT_EQ(predictor.predict()->best, 500);
}

TEST(PhaseLinePredictor, RefusesALimitOfZero) {
  EXPECT_THROW(PhaseLinePredictor(0_B), InvalidArgument);
  EXPECT_THROW(PhaseLinePredictor(1_B, 0.5), InvalidArgument);
}

}  // namespace
}  // namespace maxbatch
