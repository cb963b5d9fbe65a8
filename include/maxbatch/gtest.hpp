#pragma once

/// GoogleTest matchers over training steps. No GPU is needed: the steps run on the CPU, with real kernels, under a budget
/// of bytes. The including program links GoogleMock itself.
///
///   using namespace maxbatch::literals;
///   EXPECT_THAT(maxbatch::StepAt(make_step, /*batch_size=*/8), maxbatch::FitsIn(64_MiB));
///   EXPECT_THAT(maxbatch::StepAt(step, 8).preserve(model).preserve(optimizer), maxbatch::LeaksNothing());
///
/// A step or a factory is what `MaxBatchFinder::find` takes; see training/step_measurement.hpp. Matchers share their
/// measurements: `AllOf(PeakAtMost(48_MiB), LeaksNothing())` runs the steps once.

#include <maxbatch/bytes.hpp>
#include <maxbatch/training/step_measurement.hpp>

#include <gmock/gmock-matchers.h>

#include <ostream>
#include <string>

namespace maxbatch {
namespace detail {

class FitsInMatcher {
 public:
  using is_gtest_matcher = void;
  explicit FitsInMatcher(Bytes budget) : budget_(budget) {}

  bool MatchAndExplain(StepAt const& step, std::ostream* explanation) const {
    auto const& measured = step.measure(budget_);
    auto const fits = is_fit(measured.outcome.verdict);
    if (explanation == nullptr) { return fits; }
    if (fits) {
      *explanation << "which does, " << measured.peaks_by_phase();
      return true;
    }
    *explanation << "where " << measured.failure() << "; " << measured.peaks_by_phase();
    if (is_memory_failure(measured.outcome.verdict)) {
      if (auto const largest = step.largest_that_fits(budget_)) {
        *explanation << "; the largest batch that fits is " << *largest;
      }
    }
    return false;
  }
  void DescribeTo(std::ostream* stream) const { *stream << "fits in " << to_string(budget_); }
  void DescribeNegationTo(std::ostream* stream) const { *stream << "does not fit in " << to_string(budget_); }

 private:
  Bytes budget_;
};

class PeakAtMostMatcher {
 public:
  using is_gtest_matcher = void;
  explicit PeakAtMostMatcher(Bytes limit) : limit_(limit) {}

  bool MatchAndExplain(StepAt const& step, std::ostream* explanation) const {
    auto const& measured = step.measure();
    auto const ran = is_fit(measured.outcome.verdict);
    auto const peak = measured.outcome.peaks.reserved;
    if (explanation != nullptr) {
      *explanation << (ran ? "whose " + measured.peaks_by_phase() : "where " + measured.failure());
      if (ran && peak > limit_) { *explanation << "; that is " << to_string(peak - limit_) << " more"; }
    }
    return ran && peak <= limit_;
  }
  void DescribeTo(std::ostream* stream) const { *stream << "has a peak of at most " << to_string(limit_); }
  void DescribeNegationTo(std::ostream* stream) const { *stream << "has a peak above " << to_string(limit_); }

 private:
  Bytes limit_;
};

class LeaksNothingMatcher {
 public:
  using is_gtest_matcher = void;

  bool MatchAndExplain(StepAt const& step, std::ostream* explanation) const {
    auto const& measured = step.measure();
    auto const ran = is_fit(measured.outcome.verdict);
    auto const growth = measured.growth_per_step();
    if (explanation != nullptr) {
      if (!ran) { *explanation << "where " << measured.failure(); }
      if (growth > Bytes{0}) { explain_growth(measured, *explanation); }
      if (measured.left_behind > Bytes{0}) {
        *explanation << (growth > Bytes{0} ? ", and " : "") << "which leaves " << to_string(measured.left_behind)
                     << " allocated after model, optimizer and step are gone: something outside them keeps tensors";
      }
    }
    return ran && growth == Bytes{0} && measured.left_behind == Bytes{0};
  }
  void DescribeTo(std::ostream* stream) const { *stream << "leaks nothing"; }
  void DescribeNegationTo(std::ostream* stream) const { *stream << "leaks"; }

 private:
  static void explain_growth(StepMeasurement const& measured, std::ostream& explanation) {
    explanation << "which holds " << to_string(measured.growth_per_step())
                << " more after each step (held after steps 1, 2, …: ";
    auto separator = "";
    for (auto const held : measured.held_after_step) {
      explanation << separator << to_string(held);
      separator = ", ";
    }
    explanation << ")";
  }
};

}  // namespace detail

/// Every step runs under a budget of that many bytes. A failing match says what did not fit, by how much, the peak of each
/// phase, and, where the step may be run again (a factory, or preserved state), the largest batch that does fit.
inline testing::Matcher<StepAt const&> FitsIn(Bytes budget) { return detail::FitsInMatcher(budget); }
/// The peak, over all phases, of what is allocated (rounded up to 512 bytes as the CUDA caching allocator rounds).
inline testing::Matcher<StepAt const&> PeakAtMost(Bytes limit) { return detail::PeakAtMostMatcher(limit); }
/// From the second step on no step holds more than the one before it; and nothing that a factory's steps allocated
/// outlives what the factory made.
inline testing::Matcher<StepAt const&> LeaksNothing() { return detail::LeaksNothingMatcher(); }

}  // namespace maxbatch
