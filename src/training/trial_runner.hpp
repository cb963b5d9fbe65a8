#pragma once

#include "trial_plan.hpp"
#include <maxbatch/device/memory_device.hpp>
#include <maxbatch/search/trial_outcome.hpp>
#include <maxbatch/training/step.hpp>

#include <cstdint>
#include <exception>
#include <functional>

namespace maxbatch::detail {

/// What one trial came to, after everything of it is cleaned up.
struct TrialRun {
  TrialOutcome outcome;
  Bytes still_allocated;       ///< allocated in the trial and not freed by its clean-up: a leak
  std::exception_ptr foreign;  ///< the step's own exception, where it is not about memory; null otherwise
};

/// Runs `plan`'s steps at one size in a window of `device` and classifies how they ended. `make_step` is called inside the
/// window, under Phase::setup, and its step is gone before `clean_up` is called; so is every exception about memory, since
/// exceptions may hold tensors. `clean_up` runs with the budget disarmed and must not throw for want of memory.
/// Throws: StepNeverRan when the steps passed without one allocation on the device; what `clean_up` throws.
TrialRun run_trial(MemoryDevice& device, TrialPlan const& plan, std::int64_t searched,
                   std::function<Step()> const& make_step, std::function<void()> const& clean_up);

/// Runs `work` under Phase::setup in a window of its own: how a model is built that outlives the trials.
TrialRun run_setup(MemoryDevice& device, std::function<void()> const& work);

}  // namespace maxbatch::detail
