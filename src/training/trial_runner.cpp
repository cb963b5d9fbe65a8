#include "trial_runner.hpp"

#include "autograd_queue.hpp"
#include <maxbatch/device/failure_classifier.hpp>
#include <maxbatch/search/errors.hpp>

#include <optional>
#include <string>
#include <utility>

namespace maxbatch::detail {
namespace {

/// How the work in a window ended, with the exception still alive.
struct Ending {
  std::int64_t steps = 0;
  std::optional<Failure> failure;
  std::exception_ptr error;
};

void copy_evidence(TrialEvidence const& evidence, TrialOutcome& outcome) {
  outcome.peaks = evidence.peaks;
  outcome.phases = evidence.phases;
  outcome.allocation_retries = evidence.allocation_retries;
  outcome.reduced_workspaces = evidence.reduced_workspaces;
}

TrialOutcome judge_failure(Failure const& failure, TrialEvidence const& evidence, MemoryDevice& device) {
  auto classification = classify(failure, evidence, [&device] { return device.is_alive(); });
  TrialOutcome outcome;
  outcome.verdict = classification.verdict;
  outcome.reason = std::move(classification.reason);
  outcome.failed_request = evidence.failed_request;
  return outcome;
}

TrialOutcome judge_pass(TrialEvidence const& evidence, bool allow_swallowed) {
  TrialOutcome outcome;
  if (evidence.out_of_memory_events > 0 && !allow_swallowed) {
    outcome.verdict = Verdict::swallowed_out_of_memory;
    outcome.failed_request = evidence.failed_request;
    outcome.reason = "the step returned, but ran out of memory inside " +
                     std::to_string(evidence.out_of_memory_events) + " time(s) and caught it";
  } else if (evidence.out_of_memory_events > 0 || evidence.allocation_retries > 0 || evidence.reduced_workspaces > 0) {
    outcome.verdict = Verdict::fits_under_pressure;
    outcome.reason = std::to_string(evidence.allocation_retries) + " allocation retries, " +
                     std::to_string(evidence.reduced_workspaces) + " reduced workspaces, " +
                     std::to_string(evidence.out_of_memory_events) + " failures inside the step";
  }
  return outcome;
}

TrialRun conclude(MemoryDevice& device, TrialWindow& window, Ending ending, bool allow_swallowed,
                  std::function<void()> const& clean_up) {
  auto const evidence = window.evidence();
  TrialRun run;
  run.outcome =
      ending.failure ? judge_failure(*ending.failure, evidence, device) : judge_pass(evidence, allow_swallowed);
  run.outcome.steps = ending.steps;
  copy_evidence(evidence, run.outcome);
  if (ending.failure && !is_memory_failure(run.outcome.verdict)) { run.foreign = ending.error; }
  ending.error = nullptr;  // before the clean-up: it may hold tensors
  window.disarm();
  if (ending.failure) { drain_autograd_queue(); }
  if (clean_up) { clean_up(); }
  device.release_cached_memory();
  run.still_allocated = window.still_allocated();
  return run;
}

template <typename Work>
Ending end_of(Work const& work) {
  Ending ending;
  try {
    work(ending.steps);
  } catch (std::exception const& error) {
    ending.failure = describe_failure(error);
    ending.error = std::current_exception();
  } catch (...) {
    ending.failure = describe_unknown_failure();
    ending.error = std::current_exception();
  }
  return ending;
}

}  // namespace

TrialRun run_trial(MemoryDevice& device, TrialPlan const& plan, std::int64_t searched,
                   std::function<Step()> const& make_step, std::function<void()> const& clean_up) {
  device.release_cached_memory();
  auto const window = device.open_trial();
  auto ending = end_of([&](std::int64_t& steps_done) {
    window->enter_phase(Phase::setup);
    auto const step = make_step();
    window->enter_phase(Phase::other);
    for (std::int64_t index = 0; index < plan.step_count(); ++index) {
      Trial trial(plan.setting(searched, index, device.torch_device()), *window);
      window->begin_step(index);
      step(trial);
      device.synchronize();
      window->end_step(index);
      ++steps_done;
    }
  });
  if (!ending.failure && window->evidence().allocation_count == 0) {
    window->disarm();
    if (clean_up) { clean_up(); }
    throw StepNeverRan("the step at " + std::to_string(searched) + " returned without allocating anything on " +
                       device.torch_device().str() +
                       ": it never ran there. Does it use `trial.device()`, and does its data have items?");
  }
  return conclude(device, *window, std::move(ending), plan.allow_swallowed_out_of_memory, clean_up);
}

TrialRun run_setup(MemoryDevice& device, std::function<void()> const& work) {
  device.release_cached_memory();
  auto const window = device.open_trial();
  auto ending = end_of([&](std::int64_t&) {
    window->enter_phase(Phase::setup);
    work();
    device.synchronize();
  });
  return conclude(device, *window, std::move(ending), /*allow_swallowed=*/true, nullptr);
}

}  // namespace maxbatch::detail
