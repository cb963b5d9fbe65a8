#pragma once

#include <maxbatch/device/memory_device.hpp>
#include <maxbatch/search/search_result.hpp>
#include <maxbatch/training/accumulation.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace maxbatch {

/// The same search on the dry twin of a card, before the card was asked.
struct Rehearsal {
  std::optional<std::int64_t> batch_size;
  double seconds = 0;
};

/// The answer's batch once more, with the easy inputs of ModelFactory::easy_twin. It proves nothing of the answer.
struct EasyInputs {
  std::string model;
  TrialOutcome outcome;
};

/// The answer of a finder: the search's, and what it was asked of.
struct FinderResult {
  SearchResult search;
  DeviceDescription device;  ///< its budget is what the search ran under: headroom is taken off already
  Bytes headroom;
  std::int64_t steps = 0;  ///< per trial
  /// Before the first trial: context, library handles, kernels that load when first used, the model where it is built once.
  double warm_up_seconds = 0;
  /// What replaying recordings of small sizes predicted; none: nothing was, and `replay_problem` may say why.
  std::optional<std::int64_t> replayed_batch_size;
  std::string replay_problem;
  std::vector<std::string>
      warnings;  ///< leaks, swallowed failures, spurious failures: what a careful reader should know
  std::optional<Rehearsal> rehearsal;     ///< none: there was none
  std::optional<EasyInputs> easy_inputs;  ///< none: nobody ran them; the finder does not

  /// None: nothing fits.
  std::optional<std::int64_t> batch_size() const { return search.batch_size; }
  /// The largest divisor of `effective_batch` that is at most the answer, and how many micro-batches make it whole.
  /// Throws: InvalidArgument for an effective batch below 1.
  std::optional<AccumulationPlan> accumulation_for(std::int64_t effective_batch) const;
  /// Two sentences: what fits, with its evidence, and what stops the next.
  std::string summary() const;
};

}  // namespace maxbatch
