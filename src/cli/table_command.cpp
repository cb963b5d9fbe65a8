#include "argument_values.hpp"
#include "command.hpp"
#include "run_search.hpp"
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

constexpr char const* kNote =
    "The largest batch that trains under each budget, run on this machine's CPU: real kernels, LibTorch's CPU "
    "allocator "
    "under a budget of bytes. No GPU was used, and none is described: the rows are not cards.";

struct TableArguments {
  std::vector<std::string> models;  // empty: all
  std::vector<Bytes> budgets;
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

ExitCode table(TableArguments const& arguments, Surroundings const& surroundings) {
  std::vector<ModelFactory> models;
  for (auto const& name : arguments.models) { models.push_back(surroundings.models.at(name)); }
  if (models.empty()) { models = surroundings.models.all(); }
  check_together(arguments.search);

  std::vector<ReportEntry> entries;
  auto worst = ExitCode::answered;
  auto const note_code = [&](ExitCode code) { worst = rank(code) > rank(worst) ? code : worst; };
  auto stopped = false;
  for (auto const& model : models) {
    for (auto const budget : arguments.budgets) {
      if (stopped) { break; }
      try {
        auto result =
            run_search(model, arguments.search, budget, model.name + " under " + to_string(budget), surroundings);
        stopped = StopSignal::was_given();
        note_code(exit_code_of(result));
        entries.push_back({subject_for(model, arguments.search), std::move(result), std::nullopt});
      } catch (InvalidArgument const&) {
        throw;  // the caller's mistake, and the same one in every row
      } catch (std::exception const& error) {
        note_code(ExitCode::step_failed);
        entries.push_back(failed_entry(model, arguments, budget, error));
      }
    }
  }
  if (stopped) { note_code(ExitCode::stopped_early); }
  surroundings.out << (arguments.search.format == OutputFormat::json ? to_json(entries, kNote) + '\n'
                                                                     : to_table(entries, kNote));
  return worst;
}

}  // namespace

void add_table_command(CLI::App& app, Command& chosen) {
  auto* const command =
      app.add_subcommand("table", "Several models under a row of budgets; for now on this machine's CPU");
  auto const arguments = std::make_shared<TableArguments>();
  arguments->budgets = {Bytes{16 << 20}, Bytes{32 << 20}, Bytes{64 << 20}};
  command
      ->add_option_function<std::string>(
          "--models", [arguments](std::string const& text) { arguments->models = split_at_commas(text); },
          "names that `maxbatch models` lists, with commas between them; default all")
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
  add_search_options(*command, arguments->search);
  command->footer(
      "BYTES is a number with a unit: 64MiB, 1.5GiB, 12GB (decimal); without one it is bytes.\n"
      "--max-seconds and --max-trials hold for each row.\n\n"
      "Examples:\n"
      "  maxbatch table\n"
      "  maxbatch table --models small_cnn --budgets 32MiB,64MiB --optimizer sgd\n"
      "  maxbatch table --format json\n\n"
      "Exit codes: 0 every row is answered, 1 a step failed for another reason than memory,\n"
      "2 bad usage, 3 nothing fits in some row, 4 a row was stopped early.");
  command->callback([arguments, &chosen] {
    chosen = [arguments](Surroundings const& surroundings) { return table(*arguments, surroundings); };
  });
}

}  // namespace maxbatch::cli
