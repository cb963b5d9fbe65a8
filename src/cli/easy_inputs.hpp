#pragma once

#include "command.hpp"
#include "search_arguments.hpp"
#include <maxbatch/bytes.hpp>
#include <maxbatch/training/finder_result.hpp>

#include <optional>

namespace maxbatch::cli {

/// One trial of the answer's batch with the model's easy inputs (ModelFactory::easy_twin), where it was found; none: the
/// model has no such, nothing fits, or the search was stopped.
/// Throws: InvalidArgument for a twin that nobody registered.
std::optional<EasyInputs> run_easy_inputs(ModelFactory const& model, FinderResult const& result,
                                          SearchArguments const& arguments, std::optional<Bytes> budget,
                                          Surroundings const& surroundings);

}  // namespace maxbatch::cli
