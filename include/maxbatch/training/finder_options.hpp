#pragma once

#include <maxbatch/bytes.hpp>
#include <maxbatch/search/search_options.hpp>
#include <maxbatch/training/trial.hpp>

#include <cstdint>
#include <vector>

namespace maxbatch {

struct FinderOptions {
  SearchOptions search;
  /// Complete, synchronised steps that a size must run. At least 2, to see a step with the optimizer's state resident.
  std::int64_t steps = 3;
  /// Left free while searching: the answer both ran and has this much slack.
  Bytes headroom;
  /// What the steps of a trial do, in turn; repeated in whole rounds until `steps` have run.
  /// {train, evaluate, train} finds the size that survives a validation in the middle of training.
  std::vector<StepMode> order = {StepMode::train};
  /// Parameters and all other values put back after every trial, not only at the end (slower).
  bool restore_values_each_trial = false;
  /// A step that returns although it ran out of memory inside counts as fitting.
  bool allow_swallowed_out_of_memory = false;
  /// On a CUDA device: what the allocator does in the warm-up and the first scout is recorded, and the search begins at the
  /// boundary that a replay of the two predicts. Not where the finder is given a predictor, or looks for an image size.
  bool replay_scouts = true;
};

}  // namespace maxbatch
