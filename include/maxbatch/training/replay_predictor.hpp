#pragma once

#include <maxbatch/search/peak_predictor.hpp>
#include <maxbatch/simulation/allocation_trace.hpp>
#include <maxbatch/simulation/batch_prediction.hpp>
#include <maxbatch/simulation/trace_scaling.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace maxbatch {

/// Points at the largest batch that recordings of the scouts predict: they are aligned, scaled to other sizes and run through
/// the allocator's simulator under the device's budget. Without two recordings of one program, or after a trial that is
/// far from the prediction, it says what `otherwise` says, which has watched from the start.
///
/// A trial near the prediction moves it: one size that fails takes the answer below itself.
/// Threads: not thread-safe.
class ReplayPredictor : public PeakPredictor {
 public:
  /// `otherwise` may be null, and outlives this.
  explicit ReplayPredictor(PredictionTarget target, PeakPredictor* otherwise = nullptr,
                           ScalingOptions const& scaling = {}, PredictionOptions const& options = {});

  /// Sizes that recordings are wanted of. Those that were recorded, tried or found unusable are not asked for again.
  void want_recordings_of(std::vector<std::int64_t> sizes);

  /// What the allocator did in a trial of `batch_size` that fitted, from its first event to its last. The first recording of
  /// a size counts. A recording that cannot be used is left out, and `problem` says why.
  void add_recording(std::int64_t batch_size, AllocationTrace const& trace);

  void observe(TrialRecord const& record) override;
  /// The first call after a new recording takes some tens of milliseconds.
  std::optional<Prediction> predict() const override;
  std::vector<std::int64_t> scouts() const override { return wanted_; }

  /// What is predicted from the recordings, whatever the trials say; none: see `problem`.
  std::optional<BatchPrediction> const& prediction() const;
  /// Why recordings cannot be used; empty: they can, or there are none.
  std::string const& problem() const { return problem_; }

 private:
  void make_prediction() const;
  void no_longer_want(std::int64_t batch_size);

  PredictionTarget target_;
  PeakPredictor* otherwise_;
  ScalingOptions scaling_;
  PredictionOptions options_;
  std::vector<SizedProgram> recordings_;
  std::vector<std::int64_t> wanted_;
  std::optional<std::int64_t> largest_fitting_;
  std::optional<std::int64_t> smallest_failing_;
  mutable std::optional<BatchPrediction> prediction_;
  mutable bool is_current_ = true;
  mutable std::string problem_;
};

}  // namespace maxbatch
