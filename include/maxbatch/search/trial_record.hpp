#pragma once

#include <maxbatch/search/trial_outcome.hpp>

#include <cstdint>
#include <string_view>

namespace maxbatch {
inline namespace MAXBATCH_ABI_NAMESPACE {

/// Why a size was tried.
enum class TrialPurpose {
  scout,      ///< cheap sizes, to learn how memory grows
  predicted,  ///< where the predictor says the boundary is
  bracket,    ///< closing in between a size that fits and one that does not
  repeat,     ///< a failed size again, after a flush: spurious failures exist
  neighbour   ///< above the boundary, since memory is not monotone
};

constexpr std::string_view to_string(TrialPurpose purpose) {
  switch (purpose) {
    case TrialPurpose::scout: return "scout";
    case TrialPurpose::predicted: return "predicted";
    case TrialPurpose::bracket: return "bracket";
    case TrialPurpose::repeat: return "repeat";
    case TrialPurpose::neighbour: return "neighbour";
  }
  return "";
}

/// One call of the probe.
struct TrialRecord {
  std::int64_t batch_size = 0;
  TrialPurpose purpose = TrialPurpose::scout;
  TrialOutcome outcome;
  double seconds = 0;
};

}  // namespace MAXBATCH_ABI_NAMESPACE
}  // namespace maxbatch
