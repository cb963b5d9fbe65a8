#include "script_arguments.hpp"

#include "argument_values.hpp"
#include "usage_error.hpp"
#include <maxbatch/models/script_module.hpp>

#include <CLI/CLI.hpp>

namespace maxbatch::cli {
namespace {

constexpr char const* kGroup = "Where";

/// "N,3,224,224" to {3, 224, 224}.
std::vector<std::int64_t> read_input_shape(std::string const& text) {
  auto const parts = split_at_commas(text);
  if (parts.front() != "N") {
    throw UsageError("--input-shape '" + text +
                     "' is not an input's shape: it begins with N, the batch, such as N,3,224,224");
  }
  std::vector<std::int64_t> shape;
  for (auto part = parts.begin() + 1; part != parts.end(); ++part) {
    shape.push_back(read_count("--input-shape " + text + ": size", *part, 1));
  }
  return shape;
}

}  // namespace

void add_script_options(CLI::App& command, ScriptArguments& arguments) {
  command
      .add_option("--script", arguments.file,
                  "a model that Python saved with torch.jit.script(model).save(FILE), in place of a name; needs "
                  "--input-shape")
      ->type_name("FILE")
      ->group(kGroup);
  command
      .add_option_function<std::string>(
          "--input-shape", [&](std::string const& text) { arguments.sample_shape = read_input_shape(text); },
          "of the script's one input, N standing for the batch, such as N,3,224,224")
      ->type_name("SHAPE")
      ->group(kGroup);
  command
      .add_option_function<std::string>(
          "--loss",
          [&](std::string const& text) {
            arguments.loss = read_name("--loss", text, {"cross-entropy", "mse", "output"});
          },
          "of the script: cross-entropy with random classes, mse with random values, or output where the script gives "
          "its loss itself; default cross-entropy")
      ->type_name("NAME")
      ->group(kGroup);
  command
      .add_option_function<std::string>(
          "--input-below", [&](std::string const& text) { arguments.below = read_count("--input-below", text, 1); },
          "the script's inputs are whole numbers below K, such as tokens; default floats")
      ->type_name("K")
      ->group(kGroup);
}

std::optional<ModelFactory> script_model(ScriptArguments const& arguments) {
  if (arguments.file.empty()) {
    for (auto const& [name, is_given] :
         {std::pair("--input-shape", arguments.sample_shape.has_value()),
          std::pair("--loss", arguments.loss.has_value()), std::pair("--input-below", arguments.below.has_value())}) {
      if (is_given) { throw UsageError(std::string(name) + " describes a script, and there is no --script"); }
    }
    return std::nullopt;
  }
  if (!arguments.sample_shape) {
    throw UsageError("--script '" + arguments.file +
                     "' needs --input-shape, the shape of its input, such as N,3,224,224");
  }
  models::ScriptOptions options;
  options.file = arguments.file;
  options.sample_shape = *arguments.sample_shape;
  if (arguments.loss) { options.loss = *models::parse_script_loss(*arguments.loss); }
  options.below = arguments.below;
  return models::script_factory(options);
}

ModelFactory chosen_model(std::string const& name, ScriptArguments const& script, models::ModelRegistry const& models) {
  auto const scripted = script_model(script);
  if (scripted && !name.empty()) { throw UsageError("give --model or --script, not both"); }
  if (!scripted && name.empty()) { throw UsageError("--model or --script is required: what is to be trained"); }
  return scripted ? *scripted : models.at(name);
}

}  // namespace maxbatch::cli
