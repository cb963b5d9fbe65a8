#pragma once

#include <maxbatch/search/peak_predictor.hpp>

#include <map>
#include <optional>
#include <vector>

namespace maxbatch {
inline namespace MAXBATCH_ABI_NAMESPACE {

/// The built-in predictor: one line through the peaks of each phase; the step's peak is the maximum over phases.
///
/// A peak reading is a line seen through the allocator's rounding: a reading `v` says only that the line is in
/// (v - granule, v], where the granule (20 MiB, 2 MiB, 512 bytes or 1 byte) is the largest that all readings of the phase
/// are multiples of. All lines through those windows are considered, so that a prediction has a range, and a slope that
/// could be zero is no information. Readings that no line passes through (a kink at smaller sizes, noise) are left
/// behind: the largest sizes that agree with each other count, since the boundary lies above them.
///
/// Where only the step's total peak is known, a flat start may hide a phase that grows; then the peak's proportion to the
/// limit bounds the next size instead.
class PhaseLinePredictor : public PeakPredictor {
 public:
  /// `limit`: what the step's reserved bytes must not exceed. `exponent`: memory is a line in size^exponent (2: image side).
  /// Throws: InvalidArgument for a limit of zero or less, or an exponent below 1.
  explicit PhaseLinePredictor(Bytes limit, double exponent = 1.0);

  void observe(TrialRecord const& record) override;
  std::optional<Prediction> predict() const override;

 private:
  struct Reading {
    double work;  // size^exponent
    std::int64_t bytes;
  };
  struct Range;  // of the largest work that fits one phase
  struct Trend;  // the readings that one line agrees with

  static Trend trend_of(std::vector<Reading> const& readings);
  Range range_of(Trend const& trend, std::int64_t limit_bytes) const;
  std::int64_t size_of(double work) const;

  std::int64_t limit_bytes_;
  double exponent_;
  std::map<std::int64_t, TrialOutcome> fits_;  // by size: the larger peaks where a size ran more than once
};

}  // namespace MAXBATCH_ABI_NAMESPACE
}  // namespace maxbatch

#if !defined(MAXBATCH_COMPILED_LIB)
#include <maxbatch/impl/search/phase_line_predictor_inl.hpp>
#endif
