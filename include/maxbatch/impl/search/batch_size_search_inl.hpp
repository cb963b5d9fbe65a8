#pragma once

#include <maxbatch/impl/search/next_size.hpp>
#include <maxbatch/impl/search/search_state.hpp>
#include <maxbatch/search/allowed_sizes.hpp>
#include <maxbatch/search/batch_size_search.hpp>

#include <chrono>
#include <exception>
#include <optional>
#include <string>
#include <utility>

namespace maxbatch {
namespace detail {
inline namespace MAXBATCH_ABI_NAMESPACE {

/// One search: the bracket is closed, certified and looked above, as often as a look finds a larger size that fits.
class BatchSizeSearch {
 public:
  BatchSizeSearch(Probe const& probe, SearchOptions const& options, PeakPredictor* predictor, SearchObserver* observer)
      : probe_(probe),
        options_(options),
        predictor_(predictor),
        observer_(observer),
        sizes_(options),
        state_(sizes_.count()),
        next_size_(sizes_, predictor),
        start_(now()) {
    check_budgets();
  }

  SearchResult run() {
    while (!stop_reason_ && !(close_bracket() && certify() && look_above())) {}
    return conclude();
  }

 private:
  void check_budgets() const {
    if (!probe_) { throw InvalidArgument("no probe was given"); }
    if (options_.max_trials) { require_at_least_one(*options_.max_trials, "max_trials"); }
    if (options_.max_duration && !(options_.max_duration->count() > 0)) {
      throw InvalidArgument("max_duration is " + std::to_string(options_.max_duration->count()) +
                            " s; it must be above zero");
    }
    if (options_.probe_above && *options_.probe_above < 0) {
      throw InvalidArgument("probe_above is " + std::to_string(*options_.probe_above) + "; it must not be negative");
    }
  }

  double now() const {
    if (options_.clock) { return options_.clock(); }
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
  }

  // Each of the three stages returns whether it came to its end; false: something changed, or the search has to stop.

  bool close_bracket() {
    while (!state_.is_closed()) {
      auto const choice = next_size_.choose(state_);
      if (!attempt(choice.index, choice.purpose)) { return false; }
      next_size_.learn(state_);
    }
    return true;
  }

  bool certify() {
    if (!state_.has_failure_above()) { return true; }
    auto const next = state_.bad();
    if (!state_.failed_for_memory(next) || state_.failures(next) >= 2) { return true; }
    if (options_.before_retry) { options_.before_retry(); }
    auto const repeat = attempt(next, TrialPurpose::repeat);
    if (!repeat) { return false; }
    if (!*repeat) { return true; }
    auto const second_pass = attempt(next, TrialPurpose::repeat);
    if (!second_pass) { return false; }
    if (!*second_pass) { return true; }
    state_.forgive(next);
    result_.spurious_failures.push_back(sizes_.at(next));
    return false;
  }

  bool look_above() {
    if (!state_.has_failure_above()) { return true; }
    auto const first = state_.bad() + 1;
    auto const end = std::min(sizes_.count(), first + neighbours_wanted());
    for (auto index = first; index < end; ++index) {
      if (state_.was_tried(index)) { continue; }
      auto const fits = attempt(index, TrialPurpose::neighbour);
      if (!fits) { return false; }
      if (*fits) { return false; }  // a gap: go on from the larger size
    }
    return true;
  }

  std::int64_t neighbours_wanted() const {
    if (options_.probe_above) { return std::min(*options_.probe_above, sizes_.count()); }
    constexpr std::int64_t kUnderPressure = 2;
    auto const at_answer = last_trial_of(state_.good());
    auto const at_next = last_trial_of(state_.bad());
    bool const pressure = (at_answer != nullptr && at_answer->outcome.verdict == Verdict::fits_under_pressure) ||
                          (at_next != nullptr && at_next->outcome.reduced_workspaces > 0);
    return pressure ? kUnderPressure : 0;
  }

  TrialRecord const* last_trial_of(std::int64_t index) const {
    if (index < 0 || index >= sizes_.count()) { return nullptr; }
    auto const size = sizes_.at(index);
    for (auto record = result_.trials.rbegin(); record != result_.trials.rend(); ++record) {
      if (record->batch_size == size) { return &*record; }
    }
    return nullptr;
  }

  /// Runs one size. None: a budget, a stop or a lost device ended the search.
  std::optional<bool> attempt(std::int64_t index, TrialPurpose purpose) {
    if (must_stop()) { return std::nullopt; }
    TrialRecord record;
    record.batch_size = sizes_.at(index);
    record.purpose = purpose;
    if (observer_ != nullptr) { observer_->trial_started(record.batch_size, purpose, progress()); }
    auto const before = now();
    record.outcome = index == 0 ? probe_(record.batch_size) : probe_or_describe(record.batch_size);
    record.seconds = now() - before;
    auto const verdict = record.outcome.verdict;
    if (is_fit(verdict) && record.outcome.steps < 1) {
      throw StepNeverRan("the trial of batch size " + std::to_string(record.batch_size) +
                         " reported a fit, but no step had run");
    }
    bool const fits = is_fit(verdict) && !(options_.require_clean && verdict == Verdict::fits_under_pressure);
    state_.record(index, fits, verdict);
    if (predictor_ != nullptr) { predictor_->observe(record); }
    result_.trials.push_back(std::move(record));
    if (observer_ != nullptr) { observer_->trial_finished(result_.trials.back()); }
    if (verdict == Verdict::device_lost) {
      stop_reason_ = "the device was lost at " + describe_failure_of(index);
      return std::nullopt;
    }
    return fits;
  }

  /// At sizes above the smallest an exception is an outcome: its text is kept, the object is not.
  TrialOutcome probe_or_describe(std::int64_t batch_size) {
    TrialOutcome outcome;
    outcome.verdict = Verdict::failed;
    outcome.steps = 0;
    try {
      return probe_(batch_size);
    } catch (StepNeverRan const&) { throw; } catch (std::exception const& error) {
      outcome.reason = error.what();
    } catch (...) { outcome.reason = "an exception that is no std::exception"; }
    return outcome;
  }

  bool must_stop() {
    if (observer_ != nullptr && observer_->stop_requested()) {
      stop_reason_ = "a stop was asked for";
    } else if (options_.max_trials && static_cast<std::int64_t>(result_.trials.size()) >= *options_.max_trials) {
      stop_reason_ = "the budget of " + std::to_string(*options_.max_trials) + " trials ran out";
    } else if (options_.max_duration && now() - start_ >= options_.max_duration->count() && !result_.trials.empty()) {
      stop_reason_ = "the time budget ran out";
    }
    return stop_reason_.has_value();
  }

  SearchProgress progress() const {
    SearchProgress progress;
    progress.trials_so_far = static_cast<std::int64_t>(result_.trials.size());
    if (state_.good() >= 0) { progress.largest_fitting = sizes_.at(state_.good()); }
    if (state_.has_failure_above()) { progress.smallest_failing = sizes_.at(state_.bad()); }
    progress.seconds_so_far = now() - start_;
    return progress;
  }

  std::string describe_failure_of(std::int64_t index) const {
    auto const* const trial = last_trial_of(index);
    auto text = "batch size " + std::to_string(sizes_.at(index));
    if (trial == nullptr) { return text; }
    text += ": " + std::string(to_string(trial->outcome.verdict));
    if (!trial->outcome.reason.empty()) { text += " (" + trial->outcome.reason + ")"; }
    return text;
  }

  SearchResult conclude() {
    auto const good = state_.good();
    if (good >= 0) { result_.batch_size = sizes_.at(good); }
    if (state_.has_failure_above() && state_.is_closed()) { result_.next_batch_size = sizes_.at(state_.bad()); }
    result_.proof = proof();
    result_.reason = reason();
    for (auto const& trial : result_.trials) {
      if (trial.outcome.verdict == Verdict::fits && counts_as_fitting(trial.batch_size)) {
        result_.largest_clean_batch_size = std::max(result_.largest_clean_batch_size.value_or(0), trial.batch_size);
      }
    }
    state_.for_each_failed_below_good([this](std::int64_t index) { result_.gaps.push_back(sizes_.at(index)); });
    result_.seconds = now() - start_;
    return std::move(result_);
  }

  bool counts_as_fitting(std::int64_t size) const { return !state_.counts_as_failed(sizes_.index_at_most(size)); }

  Proof proof() const {
    auto const good = state_.good();
    if (good == sizes_.count() - 1) { return sizes_.ends_at_enough() ? Proof::enough : Proof::at_allowed_maximum; }
    if (!state_.is_closed()) { return Proof::best_so_far; }
    auto const next = state_.bad();
    if (!state_.failed_for_memory(next)) {
      return stop_reason_ && last_trial_of(next)->outcome.verdict == Verdict::device_lost ? Proof::best_so_far
                                                                                          : Proof::other_limit;
    }
    if (state_.failures(next) < 2) { return Proof::best_so_far; }
    if (state_.only_likely(next) && good < 0) { return Proof::other_limit; }
    if (good < 0) { return Proof::nothing_fits; }
    return state_.all_above_failed_for_memory() ? Proof::exhausted : Proof::bracketed;
  }

  std::string reason() const {
    switch (result_.proof) {
      case Proof::at_allowed_maximum: {
        auto const largest = std::to_string(sizes_.at(sizes_.count() - 1));
        return sizes_.is_unbounded() ? "every size up to " + largest + " fits: does the step use its batch size?"
                                     : largest + " is the largest size that was allowed";
      }
      case Proof::enough: return "at least " + std::to_string(*options_.enough) + " was wanted, and it runs";
      case Proof::best_so_far: {
        auto text = stop_reason_.value_or("the search was stopped");
        if (state_.has_failure_above()) { text += "; the smallest failure is " + describe_failure_of(state_.bad()); }
        return text;
      }
      case Proof::exhausted:
        return "every allowed size above was tried and failed for memory; " + describe_failure_of(state_.bad());
      case Proof::bracketed:
      case Proof::nothing_fits:
        return describe_failure_of(state_.bad()) + ", twice" +
               (stop_reason_ ? "; not all of the sizes above were looked at: " + *stop_reason_ : "");
      case Proof::other_limit: return describe_failure_of(state_.bad()) + ": not shown to be a memory limit";
    }
    return "";
  }

  Probe const& probe_;
  SearchOptions const& options_;
  PeakPredictor* predictor_;
  SearchObserver* observer_;
  AllowedSizes sizes_;
  SearchState state_;
  NextSize next_size_;
  double start_;
  std::optional<std::string> stop_reason_;
  SearchResult result_;
};

}  // namespace MAXBATCH_ABI_NAMESPACE
}  // namespace detail

inline namespace MAXBATCH_ABI_NAMESPACE {
MAXBATCH_INLINE SearchResult search_largest_batch_size(Probe const& probe, SearchOptions const& options,
                                                       PeakPredictor* predictor, SearchObserver* observer) {
  return detail::BatchSizeSearch(probe, options, predictor, observer).run();
}

}  // namespace MAXBATCH_ABI_NAMESPACE
}  // namespace maxbatch
