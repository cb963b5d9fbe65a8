#include "fresh_answer.hpp"

#include "device_selection.hpp"
#include "run_search.hpp"
#include <maxbatch/search/phase_line_predictor.hpp>
#include <maxbatch/search/rehearsal_predictor.hpp>

#include <algorithm>
#include <string>
#include <utility>

namespace maxbatch::cli {

bool history_may_have_decided(FinderResult const& found) {
  auto const& trials = found.search.trials;
  return std::any_of(trials.begin(), trials.end(),
                     [](auto const& trial) { return trial.outcome.reduced_workspaces > 0; });
}

FinderResult fresh_answer(ModelFactory const& model, SearchArguments const& arguments, std::optional<Bytes> budget,
                          FinderResult found, Surroundings const& surroundings) {
  auto const kind = read_device(arguments.device).kind;
  auto const possible = kind == DeviceChoice::Kind::dry_card || (kind == DeviceChoice::Kind::cuda && budget);
  if (!possible || arguments.fresh_processes || arguments.never_fresh || !found.batch_size() ||
      found.search.proof == Proof::best_so_far || !history_may_have_decided(found)) {
    return found;
  }
  surroundings.log.info(
      "cuDNN had to take smaller plans, which a process remembers: asked again in a process for each size");
  auto in_fresh_ones = arguments;
  in_fresh_ones.fresh_processes = true;
  // What was measured in one process shows the way, should the answer not hold.
  std::optional<PhaseLinePredictor> lines;
  if (budget) {
    lines.emplace(*budget);
    for (auto const& trial : found.search.trials) { lines->observe(trial); }
  }
  RehearsalPredictor at_the_answer(*found.batch_size(), lines ? &*lines : nullptr);
  auto fresh = run_search(model, in_fresh_ones, budget, "in fresh processes", surroundings, &at_the_answer);
  if (fresh.batch_size() && fresh.batch_size() != found.batch_size()) {
    surroundings.log.warn("in one process, which remembered smaller plans of cuDNN's, " +
                          std::to_string(*found.batch_size()) + " fits; a process that begins with it has room for " +
                          std::to_string(*fresh.batch_size()));
  }
  fresh.rehearsal = std::move(found.rehearsal);
  return fresh;
}

}  // namespace maxbatch::cli
