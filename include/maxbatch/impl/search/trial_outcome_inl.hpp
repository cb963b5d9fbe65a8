#pragma once

#include <maxbatch/search/trial_outcome.hpp>

#include <utility>

namespace maxbatch {
inline namespace MAXBATCH_ABI_NAMESPACE {

MAXBATCH_INLINE std::string_view to_string(Verdict verdict) {
  switch (verdict) {
    case Verdict::fits: return "fits";
    case Verdict::fits_under_pressure: return "fits under pressure";
    case Verdict::out_of_memory: return "out of memory";
    case Verdict::out_of_host_memory: return "out of host memory";
    case Verdict::likely_out_of_memory: return "likely out of memory";
    case Verdict::swallowed_out_of_memory: return "swallowed out of memory";
    case Verdict::size_limit: return "size limit";
    case Verdict::device_lost: return "device lost";
    case Verdict::timed_out: return "timed out";
    case Verdict::failed: return "failed";
  }
  return "";
}

MAXBATCH_INLINE TrialOutcome TrialOutcome::fits(MemoryPeaks peaks, std::vector<PhasePeaks> phases) {
  TrialOutcome outcome;
  outcome.peaks = peaks;
  outcome.phases = std::move(phases);
  return outcome;
}

MAXBATCH_INLINE TrialOutcome TrialOutcome::out_of_memory(std::string reason) {
  TrialOutcome outcome;
  outcome.verdict = Verdict::out_of_memory;
  outcome.steps = 0;
  outcome.reason = std::move(reason);
  return outcome;
}

}  // namespace MAXBATCH_ABI_NAMESPACE
}  // namespace maxbatch
