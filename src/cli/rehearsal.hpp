#pragma once

#include "command.hpp"
#include "search_arguments.hpp"
#include <maxbatch/bytes.hpp>
#include <maxbatch/training/finder_result.hpp>

#include <optional>

namespace maxbatch::cli {

/// The same search on the dry twin of a card of this machine, in a child process. None, with a line in the log that says why, when
/// the card is not in the catalogue, this build has no dry cards, or the rehearsal came to no answer: a rehearsal only saves
/// trials.
std::optional<FinderResult> rehearse(ModelFactory const& model, SearchArguments const& arguments,
                                     std::optional<Bytes> budget, DeviceDescription const& card,
                                     Surroundings const& surroundings);

}  // namespace maxbatch::cli
