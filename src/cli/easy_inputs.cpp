#include "easy_inputs.hpp"

#include "run_search.hpp"
#include "stop_signal.hpp"

namespace maxbatch::cli {

std::optional<EasyInputs> run_easy_inputs(ModelFactory const& model, FinderResult const& result,
                                          SearchArguments const& arguments, std::optional<Bytes> budget,
                                          Surroundings const& surroundings) {
  if (model.easy_twin.empty() || !result.batch_size() || StopSignal::was_given()) { return std::nullopt; }
  auto const& twin = surroundings.models.at(model.easy_twin);
  auto once = arguments;
  once.recipe = recipe_for(arguments);
  once.accumulation_was_given = true;
  once.effective_batch.reset();
  once.rehearse = false;
  once.finder.replay_scouts = false;
  once.finder.search = {};
  once.finder.search.minimum = *result.batch_size();
  once.finder.search.maximum = *result.batch_size();
  once.finder.search.max_trials = 1;
  auto const found = run_search(twin, once, budget, "with easy inputs", surroundings);
  if (found.search.trials.empty()) { return std::nullopt; }
  return EasyInputs{twin.name, found.search.trials.front().outcome};
}

}  // namespace maxbatch::cli
