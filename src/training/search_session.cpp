#include "search_session.hpp"

#include "budget_guard.hpp"
#include "finder_checks.hpp"
#include "result_sentences.hpp"
#include <maxbatch/search/allowed_sizes.hpp>
#include <maxbatch/search/errors.hpp>
#include <maxbatch/search/phase_line_predictor.hpp>

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
  auto const smallest = AllowedSizes(search).at(0);  // refuses options that contradict each other before work starts
  usable_budget();                                   // likewise
  LeakWatch leaks(observer);
  leaks_ = &leaks;

  keeper_.emplace();
  keeper_->keep(preserved_.make_guards());
  auto const resident = keeper_->resident_tensors();
  check_residence(resident, device_.torch_device());
  check_covered(keeper_->tensors_kept_by_others(), resident);
  device_.warm_up();
  // What a first use takes from the device is taken. Where nobody gave a budget there is no cap: the device itself refuses.
  auto const budget = usable_budget();
  auto const described = device_.describe();
  bool const capped = described.budget || options_.headroom.count > 0;
  BudgetGuard const budget_guard(device_, capped ? std::optional(budget) : std::nullopt);
  PhaseLinePredictor lines(budget, exponent);
  device_.set_resident(resident_bytes(resident, device_.torch_device()));
  keeper_->restore_structure();  // the first trial starts as every other does

  auto const callers_flush = search.before_retry;
  search.before_retry = [this, callers_flush] {
    device_.release_cached_memory();
    if (callers_flush) { callers_flush(); }
  };

  FinderResult result;
  result.search = driver([this, smallest](std::int64_t size) { return probe(size, smallest); }, search,
                         predictor != nullptr ? predictor : &lines, &leaks);
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

TrialOutcome SearchSession::probe(std::int64_t size, std::int64_t smallest) {
  if (source_.prepare_step && !prepared_) {
    if (auto const failure = prepare()) { return *failure; }
  }
  auto const step = [this] {
    if (source_.make_step) { return source_.make_step(device_.torch_device()); }
    return prepared_ ? prepared_->step : source_.own_step;
  };
  auto const clean_up = [this] {
    keeper_->restore_structure();
    if (options_.restore_values_each_trial) { keeper_->restore_values(); }
  };
  auto run = run_trial(device_, plan_, size, step, clean_up);
  leaks_->after_trial(size, run.still_allocated);
  swallowed_ += run.outcome.verdict == Verdict::swallowed_out_of_memory ? 1 : 0;
  if (run.foreign && size == smallest) { std::rethrow_exception(run.foreign); }
  return std::move(run.outcome);
}

/// Builds the model that all trials share. What it allocates stays counted on the device. A failure is the outcome of the
/// trial that wanted it, and the next trial tries again.
std::optional<TrialOutcome> SearchSession::prepare() {
  auto run = run_setup(device_, [this] { prepared_ = source_.prepare_step(device_.torch_device()); });
  if (run.foreign) { std::rethrow_exception(run.foreign); }
  if (!is_fit(run.outcome.verdict)) { return std::move(run.outcome); }
  if (!prepared_->step) { throw InvalidArgument("the factory returned a PreparedStep without a step"); }
  keeper_->keep(prepared_->state.make_guards());
  check_residence(keeper_->resident_tensors(), device_.torch_device());
  check_covered(keeper_->tensors_kept_by_others(), keeper_->resident_tensors());
  return std::nullopt;
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
