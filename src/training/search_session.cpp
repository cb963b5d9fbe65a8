#include "search_session.hpp"

#include "budget_guard.hpp"
#include "finder_checks.hpp"
#include "result_sentences.hpp"
#include <maxbatch/search/allowed_sizes.hpp>
#include <maxbatch/search/errors.hpp>
#include <maxbatch/search/phase_line_predictor.hpp>
#include <maxbatch/simulation/allocator_settings.hpp>

#include <chrono>
#include <string>
#include <utility>

namespace maxbatch::detail {

SearchSession::SearchSession(MemoryDevice& device, FinderOptions const& options, TrialPlan plan,
                             PreservedState const& preserved, Source source)
    : device_(device), options_(options), plan_(std::move(plan)), preserved_(preserved), source_(std::move(source)) {}

Bytes SearchSession::usable_budget() const {
  auto const description = device_.describe();
  auto const budget = description.budget.value_or(description.usable.value_or(description.total));
  if (options_.headroom >= budget) {
    throw InvalidArgument("a headroom of " + to_string(options_.headroom) + " leaves nothing of " + to_string(budget));
  }
  return budget - options_.headroom;
}

FinderResult SearchSession::run(Driver const& driver, SearchOptions search, PeakPredictor* predictor,
                                SearchObserver* observer, double exponent) {
  AllowedSizes const sizes(search);  // refuses options that contradict each other before work starts
  auto const smallest = sizes.at(0);
  usable_budget();  // likewise
  LeakWatch leaks(observer);
  leaks_ = &leaks;

  keeper_.emplace();
  keeper_->keep(preserved_.make_guards());
  auto const resident = keeper_->resident_tensors();
  check_residence(resident, device_.torch_device());
  check_covered(keeper_->tensors_kept_by_others(), resident);
  auto const began = std::chrono::steady_clock::now();
  device_.warm_up();
  // What a first use takes from the device is taken. Where nobody gave a budget there is no cap: the device itself refuses.
  auto const budget = usable_budget();
  auto const described = device_.describe();
  bool const capped = described.budget || options_.headroom.count > 0;
  BudgetGuard const budget_guard(device_, capped ? std::optional(budget) : std::nullopt);
  PhaseLinePredictor lines(budget, exponent);
  device_.set_resident(resident_bytes(resident, device_.torch_device()));
  keeper_->restore_structure();  // the first trial starts as every other does
  // With one size to try there is nothing to predict, and its own trial is the place to see what it does at first.
  if (device_.torch_device().is_cuda() && sizes.count() > 1) {
    if (options_.replay_scouts && !driver && predictor == nullptr && exponent == 1.0) {
      begin_recording(described, budget, search, lines);
    }
    if (scouts_ || described.evidence == DeviceEvidence::measured) { run_warm_up(smallest); }
  }
  std::chrono::duration<double> const warm_up = std::chrono::steady_clock::now() - began;

  auto const callers_flush = search.before_retry;
  search.before_retry = [this, callers_flush] {
    device_.release_cached_memory();
    if (callers_flush) { callers_flush(); }
  };

  FinderResult result;
  auto const probe_size = [this, smallest](std::int64_t size) { return probe(size, smallest); };
  auto* const built_in = scouts_ ? &scouts_->predictor() : &lines;
  auto* const chosen = predictor != nullptr ? predictor : built_in;
  result.search = driver ? driver(probe_size, search, chosen, &leaks)
                         : search_largest_batch_size(probe_size, search, chosen, &leaks);
  result.warm_up_seconds = warm_up.count();
  if (scouts_) {
    result.replayed_batch_size = scouts_->predicted_size();
    result.replay_problem = scouts_->problem();
  }
  if (leaks.must_stop()) { result.search.reason = "the search was ended: " + leaks.describe(); }
  auto const is_lost =
      !result.search.trials.empty() && result.search.trials.back().outcome.verdict == Verdict::device_lost;
  result.device = is_lost ? described : device_.describe();
  result.device.budget = budget;
  result.headroom = options_.headroom;
  result.steps = plan_.step_count();
  result.warnings = warnings(result.search);
  if (!is_lost) {
    keeper_->put_back();
  } else if (!keeper_->put_back_what_can_be()) {
    result.warnings.push_back(
        "the device was lost, and what lived on it could not be put back: start the program anew");
  }
  return result;
}

/// Without the scouts' replay the search is as good, and takes some trials more.
void SearchSession::begin_recording(DeviceDescription const& described, Bytes budget, SearchOptions const& search,
                                    PeakPredictor& lines) {
  try {
    scouts_.emplace(described, budget, search, lines);
  } catch (
      InvalidAllocatorSettings const&) {  // NOLINT(bugprone-empty-catch): settings that the simulator does not know
  }
}

/// The model is built, and one small size runs, before anything is counted or timed: kernels load when they are first
/// used, which takes about a second. Whether it fits, or fails for another reason, is left for the trials to find.
void SearchSession::run_warm_up(std::int64_t smallest) {
  if (source_.prepare_step) { build(); }
  if (source_.prepare_step && !prepared_) { return; }
  auto plan = plan_;
  if (!scouts_) { plan.steps = 1; }
  run_one(scouts_ ? scouts_->warm_up_size().value_or(smallest) : smallest, plan);
}

TrialOutcome SearchSession::probe(std::int64_t size, std::int64_t smallest) {
  if (source_.prepare_step && !prepared_) {
    if (auto const failure = prepare()) { return *failure; }
  }
  auto run = run_one(size, plan_);
  leaks_->after_trial(size, run.still_allocated);
  swallowed_ += run.outcome.verdict == Verdict::swallowed_out_of_memory ? 1 : 0;
  if (run.foreign && size == smallest) { std::rethrow_exception(run.foreign); }
  return std::move(run.outcome);
}

TrialRun SearchSession::run_one(std::int64_t size, TrialPlan const& plan) {
  auto const step = [this] {
    if (source_.make_step) { return source_.make_step(device_.torch_device()); }
    return prepared_ ? prepared_->step : source_.own_step;
  };
  auto const clean_up = [this] {
    keeper_->restore_structure();
    if (options_.restore_values_each_trial) { keeper_->restore_values(); }
  };
  TrialRun run;
  auto const work = [&] {
    run = run_trial(device_, plan, size, step, clean_up);
    return run.outcome.verdict;
  };
  if (scouts_) {
    scouts_->record_trial(size, work);
  } else {
    work();
  }
  return run;
}

/// A failure is the outcome of the trial that wanted the model, and the next trial tries again.
std::optional<TrialOutcome> SearchSession::prepare() {
  auto run = build();
  if (run.foreign) { std::rethrow_exception(run.foreign); }
  if (!is_fit(run.outcome.verdict)) { return std::move(run.outcome); }
  return std::nullopt;
}

/// Builds the model that all trials share. What it allocates stays counted on the device.
TrialRun SearchSession::build() {
  TrialRun run;
  auto const work = [&] {
    run = run_setup(device_, [this] { prepared_ = source_.prepare_step(device_.torch_device()); });
  };
  if (scouts_) {
    scouts_->record_setup(work);
  } else {
    work();
  }
  if (run.foreign || !is_fit(run.outcome.verdict)) {
    prepared_.reset();
    return run;
  }
  if (!prepared_->step) {
    prepared_.reset();
    throw InvalidArgument("the factory returned a PreparedStep without a step");
  }
  keeper_->keep(prepared_->state.make_guards());
  check_residence(keeper_->resident_tensors(), device_.torch_device());
  check_covered(keeper_->tensors_kept_by_others(), keeper_->resident_tensors());
  return run;
}

std::vector<std::string> SearchSession::warnings(SearchResult const& result) const {
  std::vector<std::string> all;
  if (leaks_->has_leaked()) { all.push_back(leaks_->describe()); }
  if (swallowed_ > 0) {
    all.push_back("in " + std::to_string(swallowed_) +
                  " trial(s) the step caught an out-of-memory failure and returned: it does not count as fitting");
  }
  for (auto& warning : warnings_of(result)) { all.push_back(std::move(warning)); }
  return all;
}

}  // namespace maxbatch::detail
