#include "argument_values.hpp"
#include "card_rows.hpp"
#include "command.hpp"
#include "run_search.hpp"
#include "script_arguments.hpp"
#include "stop_signal.hpp"
#include "usage_error.hpp"
#include <maxbatch/report/result_json.hpp>
#include <maxbatch/report/result_table.hpp>
#include <maxbatch/search/errors.hpp>

#include <CLI/CLI.hpp>

#include <algorithm>
#include <memory>
#include <vector>

namespace maxbatch::cli {
namespace {

constexpr char const* kCpuNote =
    "The largest batch that trains under each budget, run on this machine's CPU: real kernels, LibTorch's CPU "
    "allocator under a budget of bytes. No GPU was used, and none is described: the rows are not cards.";

constexpr char const* kCardsNote =
    "The largest batch that trains on each card, found on dry cards: LibTorch's own CUDA code and caching "
    "allocator over a CUDA runtime without a device. No GPU was used.";

struct TableArguments {
  std::vector<std::string> models;  // empty: all
  std::vector<Card> cards;          // empty: this machine's cpu under the budgets
  std::vector<Bytes> budgets;
  ScriptArguments script;
  SearchArguments search;
};

/// How serious a code is for a whole table: what failed, then what is incomplete, then what does not fit.
int rank(ExitCode code) {
  switch (code) {
    case ExitCode::answered: return 0;
    case ExitCode::nothing_fits: return 1;
    case ExitCode::stopped_early: return 2;
    case ExitCode::step_failed: return 3;
    case ExitCode::bad_usage: return 4;
  }
  return 4;
}

ReportEntry failed_entry(ModelFactory const& model, TableArguments const& arguments, Bytes budget,
                         std::exception const& error) {
  ReportEntry entry;
  entry.subject = subject_for(model, arguments.search);
  entry.result.device.budget = budget;
  entry.error = first_line_of(error);
  return entry;
}

/// One search per row in this process, until one is stopped.
std::vector<ReportEntry> rows_of_budgets(std::vector<ModelFactory> const& models, TableArguments const& arguments,
                                         Surroundings const& surroundings) {
  std::vector<ReportEntry> entries;
  for (auto const& model : models) {
    for (auto const budget : arguments.budgets) {
      try {
        auto result =
            run_search(model, arguments.search, budget, model.name + " under " + to_string(budget), surroundings);
        entries.push_back({subject_for(model, arguments.search), std::move(result), std::nullopt});
      } catch (InvalidArgument const&) {
        throw;  // the caller's mistake, and the same one in every row
      } catch (std::exception const& error) { entries.push_back(failed_entry(model, arguments, budget, error)); }
      if (StopSignal::was_given()) { return entries; }
    }
  }
  return entries;
}

ExitCode worst_of(std::vector<ReportEntry> const& entries, std::size_t wanted) {
  auto worst = entries.size() < wanted ? ExitCode::stopped_early : ExitCode::answered;
  for (auto const& entry : entries) {
    auto const code = entry.error ? ExitCode::step_failed : exit_code_of(entry.result);
    worst = rank(code) > rank(worst) ? code : worst;
  }
  return worst;
}

/// All, but for those whose weights alone are more than every budget of a cpu: rows that say nothing.
std::vector<ModelFactory> models_by_default(std::vector<ModelFactory> models, TableArguments const& arguments) {
  if (!arguments.cards.empty() || arguments.budgets.empty()) { return models; }
  auto const largest = std::max_element(arguments.budgets.begin(), arguments.budgets.end())->count;
  auto const is_too_large = [&](ModelFactory const& model) {
    return model.parameters && *model.parameters * static_cast<std::int64_t>(sizeof(float)) > largest;
  };
  models.erase(std::remove_if(models.begin(), models.end(), is_too_large), models.end());
  return models;
}

ExitCode table(TableArguments const& arguments, Surroundings const& surroundings) {
  std::vector<ModelFactory> models;
  for (auto const& name : arguments.models) { models.push_back(surroundings.models.at(name)); }
  if (auto const script = script_model(arguments.script)) { models.push_back(*script); }
  if (models.empty()) { models = models_by_default(surroundings.models.all(), arguments); }
  check_together(arguments.search);

  auto const on_cards = !arguments.cards.empty();
  auto const entries = on_cards ? rows_of_cards(models, arguments.cards, arguments.search, surroundings)
                                : rows_of_budgets(models, arguments, surroundings);
  auto const* const note = on_cards ? kCardsNote : kCpuNote;
  surroundings.out << (arguments.search.format == OutputFormat::json ? to_json(entries, note) + '\n'
                                                                     : to_table(entries, note));
  return worst_of(entries, models.size() * (on_cards ? arguments.cards.size() : arguments.budgets.size()));
}

}  // namespace

void add_table_command(CLI::App& app, Command& chosen) {
  auto* const command = app.add_subcommand(
      "table", "Several models on a row of cards that are not here, or under a row of budgets on the CPU");
  auto const arguments = std::make_shared<TableArguments>();
  arguments->budgets = {Bytes{16 << 20}, Bytes{32 << 20}, Bytes{64 << 20}};
  command
      ->add_option_function<std::string>(
          "--models", [arguments](std::string const& text) { arguments->models = split_at_commas(text); },
          "names that `maxbatch models` lists, with commas between them; default all whose weights fit")
      ->type_name("NAMES")
      ->group("Where");
  command
      ->add_option_function<std::string>(
          "--cards", [arguments](std::string const& text) { arguments->cards = read_cards("--cards", text); },
          "cards that are not here, as `maxbatch cards` lists them, with commas between them; all: those that this "
          "LibTorch has kernels for. Each is run dry in a child process, with all the memory that it has")
      ->type_name("NAMES")
      ->group("Where");
  command
      ->add_option_function<std::string>(
          "--budgets",
          [arguments](std::string const& text) {
            arguments->budgets.clear();
            for (auto const& part : split_at_commas(text)) {
              arguments->budgets.push_back(read_bytes("--budgets", part, Bytes{1}));
            }
          },
          "amounts of memory, with commas between them; default 16MiB,32MiB,64MiB")
      ->type_name("BYTES")
      ->group("Where");
  add_script_options(*command, arguments->script);
  add_search_options(*command, arguments->search);
  command->footer(
      "BYTES is a number with a unit: 64MiB, 1.5GiB, 12GB (decimal); without one it is bytes.\n"
      "--max-seconds and --max-trials hold for each row.\n\n"
      "Examples:\n"
      "  maxbatch table\n"
      "  maxbatch table --models swin_l --cards rtx-2080-ti,rtx-4090,h200\n"
      "  maxbatch table --models swin_l --cards all\n"
      "  maxbatch table --models small_cnn --budgets 32MiB,64MiB --optimizer sgd\n"
      "  maxbatch table --format json\n\n"
      "Exit codes: 0 every row is answered, 1 a step failed for another reason than memory,\n"
      "2 bad usage, 3 nothing fits in some row, 4 a row was stopped early.");
  command->callback([arguments, &chosen] {
    chosen = [arguments](Surroundings const& surroundings) { return table(*arguments, surroundings); };
  });
}

}  // namespace maxbatch::cli
