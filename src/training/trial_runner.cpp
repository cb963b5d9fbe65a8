#include "trial_runner.hpp"

#include "../device/layout_teller.hpp"
#include "autograd_queue.hpp"
#include <maxbatch/device/failure_classifier.hpp>
#include <maxbatch/search/errors.hpp>

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <utility>

namespace maxbatch::detail {
namespace {

/// How the work in a window ended, with the exception still alive.
struct Ending {
  std::int64_t steps = 0;
  std::optional<bool> has_settled;  // asked only of steps under pressure
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

TrialOutcome judge_pass(TrialEvidence const& evidence, bool allow_swallowed, std::optional<bool> has_settled) {
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
    if (has_settled) {
      outcome.reason += *has_settled
                            ? "; then the allocator's layout repeated itself, so further steps pass as these did"
                            : "; the allocator's layout still changed from step to step, so a later one may fail";
    }
  }
  return outcome;
}

TrialRun conclude(MemoryDevice& device, TrialWindow& window, Ending ending, bool allow_swallowed,
                  std::function<void()> const& clean_up) {
  auto const evidence = window.evidence();
  TrialRun run;
  run.outcome = ending.failure ? judge_failure(*ending.failure, evidence, device)
                               : judge_pass(evidence, allow_swallowed, ending.has_settled);
  run.outcome.steps = ending.steps;
  copy_evidence(evidence, run.outcome);
  if (ending.failure && !is_memory_failure(run.outcome.verdict)) { run.foreign = ending.error; }
  ending.error = nullptr;  // before the clean-up: it may hold tensors
  window.disarm();
  if (ending.failure) { drain_autograd_queue(); }
  // A lost device runs nothing any more.
  if (is_memory_failure(run.outcome.verdict) && device.torch_device().is_cuda()) {
    wait_for_autograd_thread(device.torch_device());
  }
  try {
    if (clean_up) { clean_up(); }
  } catch (...) {
    // What lives on a lost device cannot be put back; the search ends with this trial and says so.
    if (run.outcome.verdict != Verdict::device_lost) { throw; }
  }
  device.release_cached_memory();
  run.still_allocated = window.still_allocated();
  return run;
}

/// Steps that passed only because the allocator flushed its cache leave another layout behind each time, and a later step
/// may not find what it needs. So they go on, in whole rounds of `round` steps, until a layout is one that was there
/// before: from then on everything repeats. None: the device's allocator cannot be looked into.
template <typename RunStep>
std::optional<bool> settle(TrialWindow const& window, std::int64_t round, RunStep const& run_step) {
  constexpr std::int64_t kMostRounds = 100;
  auto const* const layout = dynamic_cast<LayoutTeller const*>(&window);
  if (layout == nullptr) { return std::nullopt; }
  std::set<std::uint64_t> seen = {layout->layout_fingerprint()};
  for (std::int64_t i = 0; i < kMostRounds; ++i) {
    for (std::int64_t step = 0; step < round; ++step) { run_step(); }
    if (!seen.insert(layout->layout_fingerprint()).second) { return true; }
  }
  return false;
}

template <typename Work>
Ending end_of(Work const& work) {
  Ending ending;
  try {
    work(ending);
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
  auto ending = end_of([&](Ending& so_far) {
    window->enter_phase(Phase::setup);
    auto const step = make_step();
    window->enter_phase(Phase::other);
    auto const run_step = [&] {
      auto const index = so_far.steps;
      Trial trial(plan.setting(searched, index, device.torch_device()), *window);
      window->begin_step(index);
      step(trial);
      device.synchronize();
      window->end_step(index);
      ++so_far.steps;
    };
    while (so_far.steps < plan.step_count()) { run_step(); }
    if (window->evidence().allocation_retries > 0) {
      so_far.has_settled = settle(*window, static_cast<std::int64_t>(plan.order.size()), run_step);
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
  auto ending = end_of([&](Ending&) {
    window->enter_phase(Phase::setup);
    work();
    device.synchronize();
  });
  return conclude(device, *window, std::move(ending), /*allow_swallowed=*/true, nullptr);
}

}  // namespace maxbatch::detail
