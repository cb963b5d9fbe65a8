#include "rehearsal.hpp"

#include <maxbatch/simulation/card_catalogue.hpp>
#include <maxbatch/training/child_process_runner.hpp>

#include <exception>

namespace maxbatch::cli {

std::optional<FinderResult> rehearse(ModelFactory const& model, SearchArguments const& arguments,
                                     std::optional<Bytes> budget, DeviceDescription const& card,
                                     Surroundings const& surroundings) {
  try {
    ChildProcessOptions options;
    options.world.dry_card = card.name;
    auto twin = CardCatalogue::built_in().find(card.name);
    twin.total_memory = card.total;
    options.world.card_profile = card_profile_text(twin);
    auto result = ChildProcessRunner(options).find(model.name, recipe_for(arguments), arguments.finder, budget);
    if (result.batch_size()) { return result; }
    surroundings.log.info("the rehearsal on a dry " + card.name + " found nothing that fits");
  } catch (std::exception const& error) {
    surroundings.log.info("no rehearsal on a dry " + card.name + ": " + error.what());
  }
  return std::nullopt;
}

}  // namespace maxbatch::cli
