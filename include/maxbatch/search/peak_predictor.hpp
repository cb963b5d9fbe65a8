#pragma once

#include <maxbatch/search/trial_record.hpp>

#include <cstdint>
#include <optional>

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
};

}  // namespace MAXBATCH_ABI_NAMESPACE
}  // namespace maxbatch
