#pragma once

#include <maxbatch/models/registry.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace maxbatch::cli {

/// A TorchScript file in place of a model's name.
struct ScriptArguments {
  std::string file;  ///< empty: none
  std::optional<std::vector<std::int64_t>> sample_shape;
  std::optional<std::string> loss;
  std::optional<std::int64_t> below;
};

/// Adds their options to a command, in the group "Where".  Throws (while parsing): UsageError.
void add_script_options(CLI::App& command, ScriptArguments& arguments);

/// The script as a model; none: there is none.
/// Throws: UsageError for options that need each other; InvalidArgument as models::script_factory.
std::optional<ModelFactory> script_model(ScriptArguments const& arguments);

/// The model of a command that takes one: of the script, or by this name.
/// Throws: UsageError unless exactly one of them is given; InvalidArgument for an unknown name.
ModelFactory chosen_model(std::string const& name, ScriptArguments const& script, models::ModelRegistry const& models);

}  // namespace maxbatch::cli
