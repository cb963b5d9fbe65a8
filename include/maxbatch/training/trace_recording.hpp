#pragma once

#include <maxbatch/device/memory_device.hpp>
#include <maxbatch/search/trial_outcome.hpp>
#include <maxbatch/simulation/allocation_trace.hpp>
#include <maxbatch/training/model_factory.hpp>
#include <maxbatch/training/recipe.hpp>

#include <cstdint>

namespace maxbatch {

/// What the caching allocator did while a model was built and trained for some steps.
struct RecordedSteps {
  TrialOutcome outcome;
  AllocationTrace trace;          ///< from an empty cache on: the model, then each step, marked by step and phase
  std::uint64_t lost_events = 0;  ///< not zero: the trace ends early
};

/// Builds `model` on a CUDA device and runs `steps` training steps at one batch size under the device's budget, recorded.
/// Nothing of it stays. An exception of the step's, memory or not, is in the outcome.
/// Throws: InvalidArgument for another device than CUDA's, and for sizes or steps below 1; what TraceRecorder throws.
RecordedSteps record_steps(MemoryDevice& device, ModelFactory const& model, Recipe const& recipe,
                           std::int64_t batch_size, std::int64_t steps);

}  // namespace maxbatch
