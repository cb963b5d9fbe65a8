#include "argument_values.hpp"
#include "command.hpp"
#include "dry_run_process.hpp"
#include "dry_run_report.hpp"
#include "usage_error.hpp"
#include <maxbatch/simulation/card_catalogue.hpp>

#include <CLI/CLI.hpp>

#include <fstream>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace maxbatch::cli {
namespace {

struct DryRunArguments {
  std::string card;
  std::string budget;
  std::string seed;
  std::string devices;
  std::string report;
  std::vector<std::string> program;
};

Card const& find_card(std::string const& name) {
  try {
    return CardCatalogue::built_in().find(name);
  } catch (UnknownCard const& error) { throw UsageError(std::string("--card: ") + error.what()); }
}

DryRunOrder order_of(DryRunArguments const& arguments, std::vector<std::string> const& program) {
  if (!arguments.program.empty()) {
    throw UsageError("the program and its arguments stand after --: maxbatch dry-run --card NAME -- " +
                     arguments.program.front() + " ...");
  }
  if (program.empty()) { throw UsageError("dry-run needs a program, after --"); }
  auto const& card = find_card(arguments.card);
  DryRunOrder order;
  order.card_name = card.name;
  order.card_profile = card_profile_text(card);
  if (!arguments.budget.empty()) {
    // One segment of the caching allocator: under less than that nothing runs.
    order.budget = read_bytes("--budget", arguments.budget, Bytes{std::int64_t{2} << 20});
  }
  if (!arguments.seed.empty()) { order.seed = read_count("--seed", arguments.seed, 0); }
  if (!arguments.devices.empty()) { order.devices = read_count("--devices", arguments.devices, 1); }
  order.program = program;
  return order;
}

ExitCode run(DryRunArguments const& arguments, Surroundings const& surroundings) {
  auto const order = order_of(arguments, surroundings.program);
  if (!kernels_for(find_card(arguments.card).architecture.capability)) {
    surroundings.log.warn("LibTorch " + std::string(kernels_build()) + " has no kernels for " + order.card_name +
                          ": on a real one the program would stop at its first kernel");
  }
  std::ofstream report_file;
  if (!arguments.report.empty()) {
    report_file.open(arguments.report);
    if (!report_file) { throw UsageError("--report: " + arguments.report + " cannot be written"); }
  }
  auto const outcome = run_dry(order);
  if (report_file.is_open()) {
    report_file << dry_run_json(order, outcome);
    if (!report_file.flush()) { throw UsageError("--report: " + arguments.report + " could not be written"); }
  } else {
    auto const text = dry_run_text(order, outcome);
    surroundings.status.write_line(std::string_view(text).substr(0, text.size() - 1));
  }
  return static_cast<ExitCode>(outcome.exit_code);
}

}  // namespace

void add_dry_run_command(CLI::App& app, Command& chosen) {
  auto* const command = app.add_subcommand("dry-run", "Any CUDA program on a card that is not there");
  auto const arguments = std::make_shared<DryRunArguments>();
  command->add_option("--card", arguments->card, "the card, as `maxbatch cards` lists it")
      ->type_name("NAME")
      ->required();
  command
      ->add_option("--budget", arguments->budget,
                   "what the program may take from the driver, such as 10700MiB; default all that the card has")
      ->type_name("BYTES");
  command
      ->add_option("--seed", arguments->seed,
                   "a draw of the addresses that differ from run to run on a real card; default 0, none")
      ->type_name("N");
  command->add_option("--devices", arguments->devices, "how many such cards; default 1")->type_name("N");
  command->add_option("--report", arguments->report, "write the report there, as JSON, instead of to standard error")
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
