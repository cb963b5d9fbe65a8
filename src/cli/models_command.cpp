#include "command.hpp"
#include "search_arguments.hpp"

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdio>
#include <memory>

namespace maxbatch::cli {
namespace {

std::string text_of(std::optional<ImageSize> size) {
  return size ? std::to_string(size->height) + "x" + std::to_string(size->width) : "-";
}

std::string text_of(std::optional<std::int64_t> parameters) {
  if (!parameters) { return "-"; }
  char text[32];
  std::snprintf(text, sizeof text, "%.2f M", static_cast<double>(*parameters) / 1e6);
  return text;
}

void print_table(std::vector<ModelFactory> const& models, std::ostream& out) {
  std::string const name_heading = "model";
  auto width = name_heading.size();
  for (auto const& model : models) { width = std::max(width, model.name.size()); }
  auto const padding = [](std::string const& text, std::size_t column) {
    return std::string(column - std::min(text.size(), column - 1), ' ');
  };
  auto const line = [&](std::string const& name, std::string const& images, std::string const& parameters,
                        std::string const& description) {
    out << name << padding(name, width + 2) << images << padding(images, 11) << padding(parameters, 11) << parameters
        << "  " << description << '\n';
  };
  line(name_heading, "images", "parameters", "what it is");
  for (auto const& model : models) {
    line(model.name, text_of(model.image_size), text_of(model.parameters), model.description);
  }
}

void print_json(std::vector<ModelFactory> const& models, std::ostream& out) {
  auto json = nlohmann::ordered_json::array();
  for (auto const& model : models) {
    nlohmann::ordered_json entry;
    entry["model"] = model.name;
    entry["description"] = model.description;
    entry["image_size"] = nullptr;
    if (model.image_size) { entry["image_size"] = {model.image_size->height, model.image_size->width}; }
    entry["parameters"] = nullptr;
    if (model.parameters) { entry["parameters"] = *model.parameters; }
    json.push_back(std::move(entry));
  }
  out << json.dump(2) << '\n';
}

}  // namespace

void add_models_command(CLI::App& app, Command& chosen) {
  auto* const command = app.add_subcommand("models", "The models that this program knows");
  auto const format = std::make_shared<OutputFormat>(OutputFormat::table);
  add_format_option(*command, *format);
  command->footer("A program that knows your own model, too, is one line: see examples/own_model.cpp.");
  command->callback([format, &chosen] {
    chosen = [format](Surroundings const& surroundings) {
      (*format == OutputFormat::json ? print_json : print_table)(surroundings.models.all(), surroundings.out);
      return ExitCode::answered;
    };
  });
}

}  // namespace maxbatch::cli
