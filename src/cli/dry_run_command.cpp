#include "argument_values.hpp"
#include "command.hpp"
#include "convolution_files.hpp"
#include "data_policies/rules.hpp"
#include "dry_cuda/card_profile.hpp"
#include "dry_run_process.hpp"
#include "dry_run_report.hpp"
#include "usage_error.hpp"
#include <maxbatch/simulation/card_catalogue.hpp>

#include <CLI/CLI.hpp>

#include <filesystem>
#include <memory>
#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace maxbatch::cli {
namespace {

struct DryRunArguments {
  std::string card;
  std::string card_profile;
  std::string convolutions;
  std::string questions;
  std::string seeds;
  std::string budget;
  std::string seed;
  std::string devices;
  std::string data;
  std::string data_rules;
  std::string report;
  std::vector<std::string> program;
};

/// A card that profile-gpu has read, with the convolutions that it has asked, where they still lie beside it.
void take_profile(DryRunArguments const& arguments, DryRunOrder& order) {
  if (!arguments.card.empty()) { throw UsageError("give --card or --card-profile, not both"); }
  order.card_profile = read_whole_file("--card-profile", arguments.card_profile);
  try {
    std::istringstream lines(order.card_profile);
    order.card_name = dry::read_card_profile(lines, arguments.card_profile).name;
  } catch (std::runtime_error const& error) { throw UsageError(std::string("--card-profile: ") + error.what()); }
  order.context_source = "as " + arguments.card_profile + " says it";
  auto const table = table_beside(arguments.card_profile);
  if (std::filesystem::exists(table)) { order.convolutions = std::filesystem::absolute(table); }
}

void take_card(DryRunArguments const& arguments, DryRunOrder& order) {
  auto const& card = read_card("--card", arguments.card);
  order.card_name = card.name;
  order.card_profile = card_profile_text(card);
  auto const& source = card.context.source;
  order.context_source = std::string(to_string(source.evidence)) + ": " + std::string(source.text);
}

/// Before any work: a program that ran for an hour should not end with a report that nobody can write.
void check_output(std::string const& option, std::string const& path) {
  auto const folder = std::filesystem::absolute(path).parent_path();
  if (std::filesystem::is_directory(path) || !std::filesystem::is_directory(folder)) {
    throw UsageError(option + ": " + path + " cannot be written");
  }
}

/// Read here, too, so that a mistake is told before the program starts.
void take_data(DryRunArguments const& arguments, DryRunOrder& order) {
  try {
    if (!arguments.data.empty() && arguments.data != "off") { dry::read_answer(arguments.data); }
  } catch (std::invalid_argument const& error) {
    throw UsageError(std::string("--data: ") + error.what() + ", and off");
  }
  try {
    if (!arguments.data_rules.empty()) { dry::read_rules_file(arguments.data_rules); }
  } catch (std::invalid_argument const& error) { throw UsageError(std::string("--data-rules: ") + error.what()); }
  order.data_policy = arguments.data;
  if (!arguments.data_rules.empty()) { order.data_rules = std::filesystem::absolute(arguments.data_rules); }
}

DryRunOrder order_of(DryRunArguments const& arguments, std::vector<std::string> const& program) {
  if (!arguments.program.empty()) {
    throw UsageError("the program and its arguments stand after --: maxbatch dry-run --card NAME -- " +
                     arguments.program.front() + " ...");
  }
  if (program.empty()) { throw UsageError("dry-run needs a program, after --"); }
  DryRunOrder order;
  if (!arguments.card_profile.empty()) {
    take_profile(arguments, order);
  } else if (!arguments.card.empty()) {
    take_card(arguments, order);
  } else {
    throw UsageError("dry-run needs --card NAME, as `maxbatch cards` lists them, or --card-profile FILE");
  }
  if (!arguments.convolutions.empty()) {
    read_whole_file("--convolutions", arguments.convolutions);
    order.convolutions = std::filesystem::absolute(arguments.convolutions);
  }
  if (!arguments.budget.empty()) {
    // One segment of the caching allocator: under less than that nothing runs.
    order.budget = read_bytes("--budget", arguments.budget, Bytes{std::int64_t{2} << 20});
  }
  // Several seeds begin with 1: 0 is an empty host, which is no draw, and an arrangement that real processes do not have. 2 is
  // one that gives the recorded peaks under caps; docs/dry_card_verification.md has the comparison, and the one recording that 0 meets.
  constexpr std::int64_t kUsualDraw = 2;
  auto const default_seed = arguments.seeds.empty() ? kUsualDraw : 1;
  order.seed = arguments.seed.empty() ? default_seed : read_count("--seed", arguments.seed, 0);
  if (!arguments.devices.empty()) { order.devices = read_count("--devices", arguments.devices, 1); }
  take_data(arguments, order);
  order.program = program;
  return order;
}

/// Writes the questions down, and says so only where there are any.
void keep_questions(DryRunArguments const& arguments, std::vector<DryRunOutcome> const& outcomes,
                    Surroundings const& surroundings) {
  if (arguments.questions.empty()) { return; }
  std::size_t added = 0;
  for (auto const& outcome : outcomes) {
    added += merge_questions("--questions", arguments.questions, outcome.questions);
  }
  surroundings.status.write_line(
      std::to_string(added) + " new convolutions in " + arguments.questions +
      (added == 0 ? "" : "; on the card: maxbatch profile-gpu --questions " + arguments.questions));
}

ExitCode run(DryRunArguments const& arguments, Surroundings const& surroundings) {
  auto const order = order_of(arguments, surroundings.program);
  auto const seeds = arguments.seeds.empty() ? 1 : read_count("--seeds", arguments.seeds, 1);
  if (!arguments.card.empty() && !kernels_for(read_card("--card", arguments.card).architecture.capability)) {
    surroundings.log.warn("LibTorch " + std::string(kernels_build()) + " has no kernels for " + order.card_name +
                          ": on a real one the program would stop at its first kernel");
  }
  if (!arguments.report.empty()) { check_output("--report", arguments.report); }
  if (!arguments.questions.empty()) {
    check_output("--questions", arguments.questions);
    if (std::filesystem::exists(arguments.questions)) { read_questions("--questions", arguments.questions); }
  }
  auto const outcomes = run_dry_seeds(order, seeds);
  keep_questions(arguments, outcomes, surroundings);
  if (!arguments.report.empty()) {
    replace_file("--report", arguments.report, dry_run_json(order, outcomes));
  } else {
    auto const text = dry_run_text(order, outcomes);
    surroundings.status.write_line(std::string_view(text).substr(0, text.size() - 1));
  }
  return static_cast<ExitCode>(dry_run_exit_code(outcomes));
}

}  // namespace

void add_dry_run_command(CLI::App& app, Command& chosen) {
  auto* const command = app.add_subcommand("dry-run", "Any CUDA program on a card that is not there");
  auto const arguments = std::make_shared<DryRunArguments>();
  command->add_option("--card", arguments->card, "the card, as `maxbatch cards` lists it")->type_name("NAME");
  command
      ->add_option("--card-profile", arguments->card_profile,
                   "instead of --card: a card that `maxbatch profile-gpu` has read, with the convolutions beside it")
      ->type_name("FILE");
  command
      ->add_option("--budget", arguments->budget,
                   "what the program may take from the driver, such as 10700MiB; default all that the card has")
      ->type_name("BYTES");
  command
      ->add_option("--seed", arguments->seed,
                   "a draw of the addresses that differ from run to run on a real card; 0: none, as in an empty host, "
                   "where find and table have their answers, so that no draw decides them; default 2")
      ->type_name("N");
  command
      ->add_option("--seeds", arguments->seeds,
                   "run so many times, with other such addresses, several at a time, and report the spread; only the "
                   "first run reads and prints; default 1")
      ->type_name("N");
  command
      ->add_option("--convolutions", arguments->convolutions,
                   "workspaces of convolutions as profile-gpu has asked them; they go before the ones built in")
      ->envname("MAXBATCH_CONVOLUTION_TABLE")
      ->type_name("FILE");
  command
      ->add_option("--questions", arguments->questions,
                   "add the convolutions that no table knew to this file, for profile-gpu on a machine with the card")
      ->envname("MAXBATCH_CONVOLUTION_QUESTIONS")
      ->type_name("FILE");
  command->add_option("--devices", arguments->devices, "how many such cards; default 1")->type_name("N");
  command->add_option("--report", arguments->report, "write the report there, as JSON, instead of to standard error")
      ->type_name("FILE");
  command
      ->add_option(
          "--data", arguments->data,
          "what depends on data is told: worst (all that there can be, the default), none, 25%, 'at most 512'; "
          "off: zeros for everything. The report lists the places that asked")
      ->envname("MAXBATCH_DRY_POLICY")
      ->type_name("POLICY");
  command
      ->add_option("--data-rules", arguments->data_rules,
                   "rules for single places, which go first, such as: nonzero in fastrcnn_loss = 2%")
      ->envname("MAXBATCH_DRY_RULES")
      ->type_name("FILE");
  command->add_option("program", arguments->program, "the program and its arguments, after --");
  command->footer(
      "The program runs unmodified, with the real LibTorch over a CUDA runtime without a device: kernels do nothing,\n"
      "memory is only addresses, and cudaMalloc refuses what the card would refuse. Its exit code is passed through;\n"
      "128 + N where signal N ended it.\n\n"
      "  maxbatch dry-run --card rtx-2080-ti -- python train.py --batch-size 8");
  command->callback([arguments, &chosen] {
    chosen = [arguments](Surroundings const& surroundings) { return run(*arguments, surroundings); };
  });
}

}  // namespace maxbatch::cli
