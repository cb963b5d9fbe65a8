#pragma once

#include "command.hpp"
#include "search_arguments.hpp"
#include <maxbatch/report/report_subject.hpp>
#include <maxbatch/simulation/card.hpp>

#include <string>
#include <vector>

namespace maxbatch::cli {

/// Cards by their names, or "all": those of the catalogue that LibTorch has kernels for.  Throws: UsageError.
std::vector<Card> read_cards(std::string const& option, std::string const& text);

/// The largest batch of each model on each card, in that order: one search per row, on a dry card in a process of its own,
/// several at a time as far as processors and memory allow. After a Ctrl-C, those that have an answer.
std::vector<ReportEntry> rows_of_cards(std::vector<ModelFactory> const& models, std::vector<Card> const& cards,
                                       SearchArguments const& arguments, Surroundings const& surroundings);

}  // namespace maxbatch::cli
