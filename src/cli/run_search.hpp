#pragma once

#include "command.hpp"
#include "search_arguments.hpp"
#include <maxbatch/bytes.hpp>
#include <maxbatch/search/peak_predictor.hpp>
#include <maxbatch/training/finder_result.hpp>

#include <optional>
#include <string>

namespace maxbatch::cli {

/// One search with progress, log and Ctrl-C. In child processes `predictor` leads it, where one is given.
/// Throws: InvalidArgument for what the model or the finder refuse; whatever the step throws that is not about memory.
FinderResult run_search(ModelFactory const& model, SearchArguments const& arguments, std::optional<Bytes> budget,
                        std::string const& title, Surroundings const& surroundings, PeakPredictor* predictor = nullptr);

ExitCode exit_code_of(FinderResult const& result);

/// One line of what a foreign exception says: LibTorch appends a backtrace of many.
std::string first_line_of(std::exception const& error);

}  // namespace maxbatch::cli
