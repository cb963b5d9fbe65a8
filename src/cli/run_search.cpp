#include "run_search.hpp"

#include "device_selection.hpp"
#include "rehearsal.hpp"
#include "stop_signal.hpp"
#include <maxbatch/search/phase_line_predictor.hpp>
#include <maxbatch/search/rehearsal_predictor.hpp>
#include <maxbatch/training/child_process_runner.hpp>
#include <maxbatch/training/max_batch_finder.hpp>

#include <memory>

namespace maxbatch::cli {

namespace {

void log_trials(FinderResult const& result, Log& log) {
  for (auto const& record : result.search.trials) {
    log.debug("batch " + std::to_string(record.batch_size) + " " + std::string(to_string(record.outcome.verdict)) +
              (record.outcome.reason.empty() ? "" : ": " + record.outcome.reason));
  }
  for (auto const& warning : result.warnings) { log.warn(warning); }
}

FinderResult search_here(ModelFactory const& model, SearchArguments const& arguments, FinderOptions const& options,
                         std::optional<Bytes> budget, SearchObserver& progress, Surroundings const& surroundings) {
  auto const choice = read_device(arguments.device);
  auto const device = make_device(arguments.device, budget);
  auto const description = device->describe();
  surroundings.log.info("searching for the largest batch of " + model.name + " on " + description.name + ", budget " +
                        to_string(description.budget.value_or(description.usable.value_or(description.total))));
  if (!description.allocator_settings.empty()) {
    surroundings.log.debug("allocator settings: " + description.allocator_settings);
  }
  MaxBatchFinder finder(device, options);
  finder.observe({&progress, [](SearchObserver*) {}});
  std::optional<FinderResult> rehearsed;
  std::optional<PhaseLinePredictor> lines;
  if (choice.kind == DeviceChoice::Kind::cuda && description.evidence == DeviceEvidence::measured &&
      arguments.rehearse) {
    rehearsed = rehearse(model, arguments, budget, description, surroundings);
  }
  if (rehearsed) {
    lines.emplace(description.budget.value_or(description.usable.value_or(description.total)));
    finder.predict_with(std::make_shared<RehearsalPredictor>(*rehearsed->batch_size(), &*lines));
  }
  auto result = finder.find(model, recipe_for(arguments));
  if (!result.replay_problem.empty()) { surroundings.log.info("no replay of small sizes: " + result.replay_problem); }
  if (rehearsed) { result.rehearsal = Rehearsal{rehearsed->batch_size(), rehearsed->search.seconds}; }
  return result;
}

FinderResult search_in_children(ModelFactory const& model, SearchArguments const& arguments,
                                FinderOptions const& options, std::optional<Bytes> budget, SearchObserver& progress,
                                PeakPredictor* predictor) {
  ChildProcessOptions children;
  auto const choice = read_device(arguments.device);
  if (choice.kind == DeviceChoice::Kind::dry_card) {
    children.world.dry_card = choice.card;
  } else {
    children.world.device = arguments.device;
  }
  children.fresh_process_per_trial = arguments.fresh_processes;
  children.trial_timeout = arguments.trial_timeout;
  return ChildProcessRunner(children).find(model.name, recipe_for(arguments), options, budget, &progress, predictor);
}

}  // namespace

FinderResult run_search(ModelFactory const& model, SearchArguments const& arguments, std::optional<Bytes> budget,
                        std::string const& title, Surroundings const& surroundings, PeakPredictor* predictor) {
  auto options = arguments.finder;
  options.search.divisor_of = arguments.effective_batch;
  StopSignal const stop_signal;
  ProgressReporter progress(surroundings.status, title);
  auto const in_children = read_device(arguments.device).kind == DeviceChoice::Kind::dry_card ||
                           arguments.fresh_processes || arguments.trial_timeout;
  auto result = in_children ? search_in_children(model, arguments, options, budget, progress, predictor)
                            : search_here(model, arguments, options, budget, progress, surroundings);
  log_trials(result, surroundings.log);
  return result;
}

ExitCode exit_code_of(FinderResult const& result) {
  switch (result.search.proof) {
    case Proof::nothing_fits: return ExitCode::nothing_fits;
    case Proof::best_so_far: return ExitCode::stopped_early;
    case Proof::exhausted:
    case Proof::bracketed:
    case Proof::at_allowed_maximum:
    case Proof::enough:
    case Proof::other_limit: break;
  }
  return ExitCode::answered;
}

std::string first_line_of(std::exception const& error) {
  std::string const text = error.what();
  return text.substr(0, text.find('\n'));
}

}  // namespace maxbatch::cli
