#pragma once

#include <maxbatch/bytes.hpp>
#include <maxbatch/device/memory_device.hpp>
#include <maxbatch/search/peak_predictor.hpp>
#include <maxbatch/search/search_options.hpp>
#include <maxbatch/search/trial_outcome.hpp>
#include <maxbatch/simulation/allocation_trace.hpp>
#include <maxbatch/training/replay_predictor.hpp>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace maxbatch::detail {

/// Records what a CUDA device's allocator does while a search prepares its model, warms up and scouts, and hands it to a
/// ReplayPredictor, until that has all it asked for. Where something cannot be recorded (somebody else records, settings
/// that are not modelled) the search goes on by `otherwise`, and `problem` says why.
class ScoutRecordings {
 public:
  ScoutRecordings(DeviceDescription const& device, Bytes budget, SearchOptions const& search, PeakPredictor& otherwise);

  /// What a recording is wanted of; the smaller one is for the warm-up.
  std::optional<std::int64_t> warm_up_size() const;

  void record_setup(std::function<void()> const& work);
  /// `work` runs one trial of `size` and returns how it ended; recorded where that is wanted.
  void record_trial(std::int64_t size, std::function<Verdict()> const& work);

  PeakPredictor& predictor() { return predictor_; }
  std::optional<std::int64_t> predicted_size() const;
  std::string const& problem() const { return problem_.empty() ? predictor_.problem() : problem_; }

 private:
  /// Runs `work`, recorded; none: it could not be.
  std::optional<AllocationTrace> record(std::function<void()> const& work);

  c10::DeviceIndex index_;
  ReplayPredictor predictor_;
  std::vector<std::int64_t> sizes_;  // to be recorded
  std::optional<AllocationTrace> setup_;
  std::string problem_;
};

}  // namespace maxbatch::detail
