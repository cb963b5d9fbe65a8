#pragma once

#include <maxbatch/search/trial_record.hpp>

#include <cstdint>
#include <optional>

namespace maxbatch {
inline namespace MAXBATCH_ABI_NAMESPACE {

/// What the search knows before a trial.
struct SearchProgress {
  std::int64_t trials_so_far = 0;
  std::optional<std::int64_t> largest_fitting;
  std::optional<std::int64_t> smallest_failing;  ///< above `largest_fitting`
  double seconds_so_far = 0;
};

/// Watches a search while it happens; called on the searching thread, between trials.
/// Throws: what an observer throws ends the search and passes through.
class SearchObserver {
 public:
  virtual ~SearchObserver() = default;
  virtual void trial_started(std::int64_t /*batch_size*/, TrialPurpose /*purpose*/,
                             SearchProgress const& /*progress*/) {}
  virtual void trial_finished(TrialRecord const& /*record*/) {}
  /// Asked before each trial; true ends the search with the best so far.
  virtual bool stop_requested() { return false; }
};

}  // namespace MAXBATCH_ABI_NAMESPACE
}  // namespace maxbatch
