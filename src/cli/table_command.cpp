#include "argument_values.hpp"
#include "card_rows.hpp"
#include "command.hpp"
#include "device_selection.hpp"
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
    "allocator over a CUDA runtime without a device. No GPU was used, so nothing is said of speed.";

constexpr char const* kPresentNote =
    "The largest batch that trains on the card of this machine, run there, with LibTorch's own caching allocator.";

struct TableArguments {
  std::vector<std::string> models;            // empty: all
  std::vector<Card> cards;                    // empty: --device under the budgets
  std::vector<std::optional<Bytes>> budgets;  // none: what the device has
  std::optional<bool> speed;                  // not said: where the device is a card of this machine
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

ReportEntry failed_entry(ModelFactory const& model, TableArguments const& arguments, std::optional<Bytes> budget,
                         std::exception const& error) {
  ReportEntry entry;
  entry.subject = subject_for(model, arguments.search);
  entry.result.device.budget = budget;
  entry.error = first_line_of(error);
  return entry;
}

DeviceChoice::Kind kind_of(TableArguments const& arguments) {
  return arguments.cards.empty() ? read_device(arguments.search.device).kind : DeviceChoice::Kind::dry_card;
}

/// Speed up to the answer, on the device that it was found on.
SpeedResult speed_of(ModelFactory const& model, TableArguments const& arguments, std::optional<Bytes> budget,
                     std::int64_t answer, Surroundings const& surroundings) {
  SpeedOptions options;
  options.rounds = 3;
  options.round_seconds = 0.3;
  options.largest = answer;
  auto const device = make_device(arguments.search.device, budget);
  auto speed = measure_speed(*device, model, recipe_for(arguments.search), options, [&](SpeedAtSize const& size) {
    surroundings.status.show(model.name + ": speed of batch " + std::to_string(size.batch_size) + " measured");
  });
  surroundings.status.clear();
  return speed;
}

/// One search per row in this process, until one is stopped.
std::vector<ReportEntry> rows_of_budgets(std::vector<ModelFactory> const& models, TableArguments const& arguments,
                                         Surroundings const& surroundings) {
  std::vector<ReportEntry> entries;
  for (auto const& model : models) {
    for (auto const budget : arguments.budgets) {
      try {
        auto const title = model.name + (budget ? " under " + to_string(*budget) : "");
        ReportEntry entry;
        entry.subject = subject_for(model, arguments.search);
        entry.result = run_search(model, arguments.search, budget, title, surroundings);
        auto const wants_speed = arguments.speed.value_or(kind_of(arguments) == DeviceChoice::Kind::cuda);
        auto const is_measured = entry.result.device.evidence != DeviceEvidence::dry;
        if (wants_speed && is_measured && entry.result.batch_size() && !StopSignal::was_given()) {
          entry.speed = speed_of(model, arguments, budget, *entry.result.batch_size(), surroundings);
        }
        entries.push_back(std::move(entry));
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
  if (kind_of(arguments) != DeviceChoice::Kind::cpu) { return models; }
  auto const largest = std::max_element(arguments.budgets.begin(), arguments.budgets.end())->value().count;
  auto const is_too_large = [&](ModelFactory const& model) {
    return model.parameters && *model.parameters * static_cast<std::int64_t>(sizeof(float)) > largest;
  };
  models.erase(std::remove_if(models.begin(), models.end(), is_too_large), models.end());
  return models;
}

char const* note_of(TableArguments const& arguments) {
  switch (kind_of(arguments)) {
    case DeviceChoice::Kind::cpu: return kCpuNote;
    case DeviceChoice::Kind::cuda: return kPresentNote;
    case DeviceChoice::Kind::dry_card: break;
  }
  return kCardsNote;
}

/// What only shows when all options are known. Throws: UsageError.
void complete(TableArguments& arguments) {
  check_together(arguments.search);
  auto const kind = kind_of(arguments);
  if (arguments.speed.value_or(false) && kind == DeviceChoice::Kind::dry_card) {
    throw UsageError("--speed on cards that are not here: nothing takes time there; leave it out");
  }
  if (arguments.budgets.empty()) {
    if (kind == DeviceChoice::Kind::cpu) {
      arguments.budgets = {Bytes{16 << 20}, Bytes{32 << 20}, Bytes{64 << 20}};
    } else {
      arguments.budgets = {std::nullopt};
    }
  }
}

ExitCode table(TableArguments arguments, Surroundings const& surroundings) {
  complete(arguments);
  std::vector<ModelFactory> models;
  for (auto const& name : arguments.models) { models.push_back(surroundings.models.at(name)); }
  if (auto const script = script_model(arguments.script)) { models.push_back(*script); }
  if (models.empty()) { models = models_by_default(surroundings.models.all(), arguments); }

  auto const on_cards = !arguments.cards.empty();
  auto const entries = on_cards ? rows_of_cards(models, arguments.cards, arguments.search, surroundings)
                                : rows_of_budgets(models, arguments, surroundings);
  auto const* const note = note_of(arguments);
  surroundings.out << (arguments.search.format == OutputFormat::json ? to_json(entries, note) + '\n'
                                                                     : to_table(entries, note));
  return worst_of(entries, models.size() * (on_cards ? arguments.cards.size() : arguments.budgets.size()));
}

}  // namespace

void add_table_command(CLI::App& app, Command& chosen) {
  auto* const command = app.add_subcommand(
      "table", "Several models on a row of cards that are not here, or under a row of budgets on a device");
  auto const arguments = std::make_shared<TableArguments>();
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
          "amounts of memory, with commas between them; default 16MiB,32MiB,64MiB on the cpu, elsewhere what the "
          "device "
          "has")
      ->type_name("BYTES")
      ->group("Where");
  command
      ->add_flag_function(
          "--speed,!--no-speed", [arguments](std::int64_t count) { arguments->speed = count > 0; },
          "also samples a second in training and inference, at the largest batch and at the smallest within "
          "5 % of the best (as bench measures them, 3 rounds of 0.3 s); default on a card of this machine")
      ->group("Output");
  add_script_options(*command, arguments->script);
  add_search_options(*command, arguments->search);
  command->footer(
      "BYTES is a number with a unit: 64MiB, 1.5GiB, 12GB (decimal); without one it is bytes.\n"
      "--max-seconds and --max-trials hold for each row.\n\n"
      "Examples:\n"
      "  maxbatch table\n"
      "  maxbatch table --models swin_l --cards rtx-2080-ti,rtx-4090,h200\n"
      "  maxbatch table --models swin_l --cards all\n"
      "  maxbatch table --models swin_l,faster_rcnn --device cuda:0\n"
      "  maxbatch table --models small_cnn --budgets 32MiB,64MiB --optimizer sgd\n"
      "  maxbatch table --format json\n\n"
      "Exit codes: 0 every row is answered, 1 a step failed for another reason than memory,\n"
      "2 bad usage, 3 nothing fits in some row, 4 a row was stopped early.");
  command->callback([arguments, &chosen] {
    chosen = [arguments](Surroundings const& surroundings) { return table(*arguments, surroundings); };
  });
}

}  // namespace maxbatch::cli
