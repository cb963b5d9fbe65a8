#pragma once

#include <maxbatch/bytes.hpp>
#include <maxbatch/simulation/card.hpp>
#include <maxbatch/training/recipe.hpp>

#include <cstdint>
#include <string>
#include <vector>

namespace maxbatch::cli {

/// Readers of values on the command line. `option` is named in the complaint.  Throws: UsageError.
std::int64_t read_count(std::string const& option, std::string const& text, std::int64_t at_least);
double read_seconds(std::string const& option, std::string const& text);
Bytes read_bytes(std::string const& option, std::string const& text, Bytes at_least);
ImageSize read_image_size(std::string const& option, std::string const& text);
OptimizerKind read_optimizer(std::string const& option, std::string const& text);
Precision read_precision(std::string const& option, std::string const& text);
/// A card of the catalogue.
Card const& read_card(std::string const& option, std::string const& text);
std::vector<StepMode> read_order(std::string const& option, std::string const& text);

/// "a,b" to {"a", "b"}; an empty part stays, so that someone complains about it.
std::vector<std::string> split_at_commas(std::string const& text);

/// `text` where it is one of `known`.  Throws: UsageError with the nearest one and all of them.
std::string read_name(std::string const& option, std::string const& text, std::vector<std::string> const& known);

}  // namespace maxbatch::cli
