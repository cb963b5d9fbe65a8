#include "run_search.hpp"

#include "device_selection.hpp"
#include "stop_signal.hpp"
#include <maxbatch/training/max_batch_finder.hpp>

#include <memory>

namespace maxbatch::cli {

FinderResult run_search(ModelFactory const& model, SearchArguments const& arguments, std::optional<Bytes> budget,
                        std::string const& title, Surroundings const& surroundings) {
  auto const device = make_device(arguments.device, budget);
  auto options = arguments.finder;
  options.search.divisor_of = arguments.effective_batch;

  auto const description = device->describe();
  surroundings.log.info("searching for the largest batch of " + model.name + " on " + description.name + ", budget " +
                        to_string(description.budget.value_or(description.total)));
  if (!description.allocator_settings.empty()) {
    surroundings.log.debug("allocator settings: " + description.allocator_settings);
  }

  StopSignal const stop_signal;
  MaxBatchFinder finder(device, options);
  finder.observe(std::make_shared<ProgressReporter>(surroundings.status, title));
  auto result = finder.find(model, recipe_for(arguments));
  for (auto const& record : result.search.trials) {
    surroundings.log.debug("batch " + std::to_string(record.batch_size) + " " +
                           std::string(to_string(record.outcome.verdict)) +
                           (record.outcome.reason.empty() ? "" : ": " + record.outcome.reason));
  }
  for (auto const& warning : result.warnings) { surroundings.log.warn(warning); }
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
