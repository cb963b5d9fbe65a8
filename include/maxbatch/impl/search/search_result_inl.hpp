#pragma once

#include <maxbatch/search/search_result.hpp>

#include <algorithm>

namespace maxbatch {
inline namespace MAXBATCH_ABI_NAMESPACE {

MAXBATCH_INLINE TrialRecord const* SearchResult::answer() const {
  if (!batch_size) { return nullptr; }
  auto const last = std::find_if(trials.rbegin(), trials.rend(), [this](TrialRecord const& record) {
    return record.batch_size == *batch_size && is_fit(record.outcome.verdict);
  });
  return last == trials.rend() ? nullptr : &*last;
}

MAXBATCH_INLINE TrialRecord const* SearchResult::next_failure() const {
  if (!next_batch_size) { return nullptr; }
  auto const last = std::find_if(trials.rbegin(), trials.rend(), [this](TrialRecord const& record) {
    return record.batch_size == *next_batch_size && !is_fit(record.outcome.verdict);
  });
  return last == trials.rend() ? nullptr : &*last;
}

MAXBATCH_INLINE std::int64_t SearchResult::trial_count() const {
  return static_cast<std::int64_t>(trials.size()) - neighbour_trial_count();
}

MAXBATCH_INLINE std::int64_t SearchResult::neighbour_trial_count() const {
  return std::count_if(trials.begin(), trials.end(),
                       [](TrialRecord const& record) { return record.purpose == TrialPurpose::neighbour; });
}

}  // namespace MAXBATCH_ABI_NAMESPACE
}  // namespace maxbatch
