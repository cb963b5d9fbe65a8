#pragma once

#include <maxbatch/search/peak_predictor.hpp>
#include <maxbatch/search/search_options.hpp>
#include <maxbatch/search/trial_outcome.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <vector>

namespace maxbatch::cli {

/// The n-th trial of a size, from 0.
struct TrialKey {
  std::int64_t size = 0;
  std::size_t number = 0;
  friend bool operator<(TrialKey const& a, TrialKey const& b) {
    return a.size != b.size ? a.size < b.size : a.number < b.number;
  }
};

using KnownTrials = std::map<TrialKey, TrialOutcome>;
using MakePredictor = std::function<std::unique_ptr<PeakPredictor>()>;

/// Which trials the search will ask for next, the most probable first and at most `count`: found by running the very search over
/// what is known, with guesses in place of what is not. `limit`: where a size that is guessed no longer fits; none: not known.
std::vector<TrialKey> next_trials(SearchOptions const& options, KnownTrials const& known, std::optional<Bytes> limit,
                                  MakePredictor const& make_predictor, std::size_t count);

}  // namespace maxbatch::cli
