#pragma once

#include <maxbatch/search/trial_outcome.hpp>

#include <cstdint>
#include <optional>
#include <vector>

namespace maxbatch {

/// What a device saw while a trial ran: facts only, no verdict.
struct TrialEvidence {
  MemoryPeaks peaks;
  std::vector<PhasePeaks> phases;         ///< those in which something was allocated or held, in kAllPhases' order
  std::int64_t allocation_count = 0;      ///< granted allocations of more than zero bytes
  std::int64_t out_of_memory_events = 0;  ///< requests refused for good, whoever caught the exception
  std::int64_t allocation_retries = 0;    ///< requests granted only after a flush
  std::int64_t reduced_workspaces = 0;    ///< refused library workspaces that a smaller one replaced
  std::optional<FailedRequest> failed_request;  ///< the last refused one
  std::optional<Bytes> free_at_failure;         ///< what the budget (or the device) still had when it was refused
  /// Allocations that no trial was charged for, because several were open in this process and the allocating thread
  /// belonged to none of them. Not zero: peaks and boundary of this trial may be too low.
  std::int64_t unattributed_allocations = 0;
  Bytes unattributed;  ///< their sizes, rounded, frees not taken off
};

}  // namespace maxbatch
