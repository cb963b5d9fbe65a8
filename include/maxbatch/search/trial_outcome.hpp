#pragma once

#include <maxbatch/search/memory_peaks.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace maxbatch {
inline namespace MAXBATCH_ABI_NAMESPACE {

/// What became of one trial, decided from type, evidence and text (see device/failure_classifier.hpp).
enum class Verdict {
  fits,                     ///< every step ran
  fits_under_pressure,      ///< every step ran, after allocation retries or with smaller library workspaces
  out_of_memory,            ///< the device's memory
  out_of_host_memory,       ///< ordinary or pinned host memory
  likely_out_of_memory,     ///< a library's error text that usually means memory, with little free at the time
  swallowed_out_of_memory,  ///< the step returned, but it had run out of memory inside
  size_limit,               ///< a launch or index limit: no memory claim
  device_lost,              ///< a sticky error: nothing more can run on the device in this process
  timed_out,                ///< the trial took longer than it was allowed to
  failed                    ///< anything else
};

std::string_view to_string(Verdict verdict);

constexpr bool is_fit(Verdict v) { return v == Verdict::fits || v == Verdict::fits_under_pressure; }

/// Whether a failure says something about memory, so that it may bound a batch size.
constexpr bool is_memory_failure(Verdict v) {
  return v == Verdict::out_of_memory || v == Verdict::out_of_host_memory || v == Verdict::likely_out_of_memory ||
         v == Verdict::swallowed_out_of_memory;
}

/// The allocation that could not be had.
struct FailedRequest {
  Phase phase = Phase::other;
  Bytes requested;                         ///< what the program asked for
  std::optional<Bytes> segment;            ///< what the allocator then asked of the device, where it did
  std::optional<Bytes> short_by_at_least;  ///< how much more budget this one request wanted; later ones may want more
};

/// The result of one call of a probe: `std::int64_t batch_size -> TrialOutcome`.
struct TrialOutcome {
  Verdict verdict = Verdict::fits;
  std::int64_t steps = 1;          ///< complete, synchronised steps; a fit of zero steps is an error
  MemoryPeaks peaks;               ///< over the whole trial; all zero: not measured
  std::vector<PhasePeaks> phases;  ///< those that were entered; empty: not measured
  std::optional<FailedRequest> failed_request;
  std::int64_t allocation_retries = 0;
  std::int64_t reduced_workspaces = 0;
  std::string reason;  ///< one sentence: how the verdict was reached

  static TrialOutcome fits(MemoryPeaks peaks = {}, std::vector<PhasePeaks> phases = {});
  static TrialOutcome out_of_memory(std::string reason = "out of memory");
};

}  // namespace MAXBATCH_ABI_NAMESPACE
}  // namespace maxbatch

#if !defined(MAXBATCH_COMPILED_LIB)
#include <maxbatch/impl/search/trial_outcome_inl.hpp>
#endif
