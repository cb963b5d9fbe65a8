#pragma once

#include <maxbatch/search/proof.hpp>
#include <maxbatch/search/trial_record.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace maxbatch {
inline namespace MAXBATCH_ABI_NAMESPACE {

/// The answer with its evidence.
struct SearchResult {
  std::optional<std::int64_t> batch_size;  ///< the largest that ran; none: nothing did
  Proof proof = Proof::nothing_fits;
  std::string reason;                           ///< one sentence: what stops the next size, or the search
  std::optional<std::int64_t> next_batch_size;  ///< the next allowed size, where it was tried and failed; when
                                                ///< nothing fits, the smallest
  std::optional<std::int64_t>
      largest_clean_batch_size;                 ///< of those tried: the largest without retries or reduced workspaces
  std::vector<std::int64_t> gaps;               ///< sizes below the answer that failed: memory is not monotone
  std::vector<std::int64_t> spurious_failures;  ///< sizes that failed once and then passed twice
  std::vector<TrialRecord> trials;              ///< in the order in which they ran
  double seconds = 0;

  /// The last passing trial of the answer; null when nothing fits.
  TrialRecord const* answer() const;
  /// The last failing trial of `next_batch_size` (of the smallest allowed size when nothing fits); null when none failed.
  TrialRecord const* next_failure() const;
  /// Calls of the probe, without (or only) the neighbours that `probe_above` asked for.
  std::int64_t trial_count() const;
  std::int64_t neighbour_trial_count() const;
};

}  // namespace MAXBATCH_ABI_NAMESPACE
}  // namespace maxbatch

#if !defined(MAXBATCH_COMPILED_LIB)
#include <maxbatch/impl/search/search_result_inl.hpp>
#endif
