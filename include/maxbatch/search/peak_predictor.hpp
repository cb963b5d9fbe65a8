#pragma once

#include <maxbatch/search/trial_record.hpp>

#include <cstdint>
#include <optional>
#include <vector>

namespace maxbatch {
inline namespace MAXBATCH_ABI_NAMESPACE {

/// Where the boundary is expected. A prediction only ever picks the next trial; it never is the answer.
struct Prediction {
  std::int64_t at_least = 0;            ///< sizes up to here should fit, if the predictor's model holds
  std::int64_t best = 0;                ///< the most probable largest fitting size
  std::optional<std::int64_t> at_most;  ///< sizes above should not fit; none: not bounded
};

/// Guesses the largest fitting size from the trials so far.
class PeakPredictor {
 public:
  virtual ~PeakPredictor() = default;
  virtual void observe(TrialRecord const& record) = 0;
  /// None: no information. May be asked before the first trial (a rehearsal knows then already).
  virtual std::optional<Prediction> predict() const = 0;
  /// Sizes that it would learn most from and has not seen, ascending. They are tried first, those that are allowed and
  /// inside the bracket. Empty: the search's own choice, the smallest and the largest that is then sure to fit.
  virtual std::vector<std::int64_t> scouts() const { return {}; }
};

}  // namespace MAXBATCH_ABI_NAMESPACE
}  // namespace maxbatch
