#include "command.hpp"
#include "report/text_table.hpp"
#include "search_arguments.hpp"
#include "usage_error.hpp"
#include <maxbatch/simulation/card_catalogue.hpp>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

namespace maxbatch::cli {
namespace {

struct CardsArguments {
  std::vector<std::string> words;
  bool figures = false;
  OutputFormat format = OutputFormat::table;
};

std::string mib_of(Bytes amount) { return std::to_string(amount.count >> 20); }

std::string kernels_text(Card const& card) {
  auto const kernels = kernels_for(card.architecture.capability);
  return kernels ? "runs" : "no kernels";
}

void print_table(std::vector<Card const*> const& cards, std::ostream& out) {
  using Align = report::TextTable::Align;
  report::TextTable table({{"card", Align::left},
                           {"device name", Align::left},
                           {"architecture", Align::left},
                           {"SMs"},
                           {"total MiB"},
                           {"evidence", Align::left},
                           {"context MiB"},
                           {"LibTorch " + std::string(kernels_build()), Align::left}});
  for (auto const* card : cards) {
    table.add_row({std::string(card->name), std::string(card->device_name),
                   std::string(card->architecture.name) + ' ' + to_string(card->architecture.capability),
                   std::to_string(card->multiprocessors), mib_of(card->total_memory),
                   std::string(to_string(card->total_memory_source.evidence)), mib_of(card->context.when_training()),
                   kernels_text(*card)});
  }
  out << table.to_string();
}

void print_figures(Card const& card, std::ostream& out) {
  out << card.name;
  if (!card.aliases.empty()) { out << "  (also " << card.aliases << ')'; }
  out << "\n" << card.device_name << ", " << card.architecture.name << ' ' << to_string(card.architecture.capability);
  if (auto const kernels = kernels_for(card.architecture.capability)) {
    out << "; LibTorch " << kernels_build() << " runs its kernels for " << to_string(*kernels) << '\n';
  } else {
    out << "; LibTorch " << kernels_build() << " has no kernels for it and does not run on it\n";
  }
  report::TextTable table({{"figure", report::TextTable::Align::left},
                           {"value"},
                           {"evidence", report::TextTable::Align::left},
                           {"source", report::TextTable::Align::left}});
  std::vector<std::string_view> sources;
  for (auto const& figure : card.figures()) {
    auto known = std::find(sources.begin(), sources.end(), figure.source.text);
    if (known == sources.end()) { known = sources.insert(sources.end(), figure.source.text); }
    table.add_row({std::string(figure.name), std::to_string(figure.value),
                   std::string(to_string(figure.source.evidence)),
                   '[' + std::to_string(known - sources.begin() + 1) + ']'});
  }
  out << table.to_string();
  for (std::size_t i = 0; i < sources.size(); ++i) {
    out << report::wrap('[' + std::to_string(i + 1) + "] " + std::string(sources[i]), /*width=*/118, "    ");
  }
}

nlohmann::ordered_json json_of(Card const& card) {
  nlohmann::ordered_json json;
  json["card"] = card.name;
  json["aliases"] = nlohmann::ordered_json::array();
  std::istringstream aliases{std::string(card.aliases)};
  for (std::string alias; aliases >> alias;) { json["aliases"].push_back(alias); }
  json["device_name"] = card.device_name;
  json["architecture"] = card.architecture.name;
  json["compute_capability"] = to_string(card.architecture.capability);
  json["ecc"] = card.ecc;
  auto const kernels = kernels_for(card.architecture.capability);
  json["libtorch"] = {{"build", kernels_build()}, {"kernels", nullptr}};
  if (kernels) { json["libtorch"]["kernels"] = to_string(*kernels); }
  for (auto const& figure : card.figures()) {
    json["figures"][std::string(figure.name)] = {
        {"value", figure.value}, {"evidence", to_string(figure.source.evidence)}, {"source", figure.source.text}};
  }
  return json;
}

ExitCode print_cards(CardsArguments const& arguments, std::ostream& out) {
  std::string text;
  for (auto const& word : arguments.words) { text += (text.empty() ? "" : " ") + word; }
  auto const& catalogue = CardCatalogue::built_in();
  auto const found = catalogue.search(text);
  if (found.empty()) {
    auto complaint = "no card matches '" + text + "'";
    if (auto const near = catalogue.nearest(text)) { complaint += "; did you mean '" + *near + "'?"; }
    throw UsageError(complaint);
  }
  if (arguments.format == OutputFormat::json) {
    auto json = nlohmann::ordered_json::array();
    for (auto const* card : found) { json.push_back(json_of(*card)); }
    out << json.dump(2) << '\n';
  } else if (arguments.figures || found.size() == 1) {
    for (auto const* card : found) {
      if (card != found.front()) { out << '\n'; }
      print_figures(*card, out);
    }
  } else {
    print_table(found, out);
  }
  return ExitCode::answered;
}

}  // namespace

void add_cards_command(CLI::App& app, Command& chosen) {
  auto* const command = app.add_subcommand("cards", "The cards that are known, and where each figure is from");
  auto const arguments = std::make_shared<CardsArguments>();
  command->add_option("TEXT", arguments->words,
                      "only cards that every word occurs in: name, architecture or compute capability");
  command->add_flag("--figures", arguments->figures, "every figure with its source, as for a single card");
  add_format_option(*command, arguments->format);
  command->footer(
      "Total memory is what a program on Linux is told, less than nvidia-smi says; it differs a little with the "
      "driver.\n"
      "Context is what the driver takes of it for a process that trains.\n\n"
      "Examples:\n"
      "  maxbatch cards\n"
      "  maxbatch cards 2080\n"
      "  maxbatch cards hopper --figures\n"
      "  maxbatch cards rtx-4090 --format json\n\n"
      "Exit codes: 0 cards were listed, 2 none matches.");
  command->callback([arguments, &chosen] {
    chosen = [arguments](Surroundings const& surroundings) { return print_cards(*arguments, surroundings.out); };
  });
}

}  // namespace maxbatch::cli
