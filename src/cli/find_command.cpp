#include "argument_values.hpp"
#include "command.hpp"
#include "run_search.hpp"
#include <maxbatch/report/result_json.hpp>
#include <maxbatch/report/result_table.hpp>

#include <CLI/CLI.hpp>

#include <memory>

namespace maxbatch::cli {
namespace {

struct FindArguments {
  std::string model;
  std::optional<Bytes> budget;
  SearchArguments search;
};

ExitCode find(FindArguments const& arguments, Surroundings const& surroundings) {
  auto const& model = surroundings.models.at(arguments.model);
  check_together(arguments.search);
  auto const result = run_search(model, arguments.search, arguments.budget, "", surroundings);
  auto const subject = subject_for(model, arguments.search);
  surroundings.out << (arguments.search.format == OutputFormat::json ? to_json(result, subject) + '\n'
                                                                     : to_text(result, subject));
  return exit_code_of(result);
}

}  // namespace

void add_find_command(CLI::App& app, Command& chosen) {
  auto* const command = app.add_subcommand("find", "The largest batch of one model, with its proof");
  auto const arguments = std::make_shared<FindArguments>();
  command->add_option("--model", arguments->model, "a name that `maxbatch models` lists")
      ->required()
      ->type_name("NAME")
      ->group("Where");
  command
      ->add_option_function<std::string>(
          "--budget",
          [arguments](std::string const& text) { arguments->budget = read_bytes("--budget", text, Bytes{1}); },
          "memory that the training may take; default what the device has (cpu: half of the machine's memory)")
      ->type_name("BYTES")
      ->group("Where");
  add_search_options(*command, arguments->search);
  command->footer(
      "BYTES is a number with a unit: 64MiB, 1.5GiB, 12GB (decimal); without one it is bytes.\n\n"
      "Examples:\n"
      "  maxbatch find --model small_cnn --budget 64MiB\n"
      "  maxbatch find --model small_cnn --budget 64MiB --headroom 4MiB --multiple-of 8\n"
      "  maxbatch find --model small_transformer --budget 256MiB --effective-batch 96 --format json\n"
      "  maxbatch find --model small_cnn --budget 1GiB --image-size 64x64 --max-seconds 20\n\n"
      "Exit codes: 0 an answer with its proof, 1 the step failed for another reason than memory,\n"
      "2 bad usage, 3 nothing fits, 4 stopped early (best so far is printed).");
  command->callback([arguments, &chosen] {
    chosen = [arguments](Surroundings const& surroundings) { return find(*arguments, surroundings); };
  });
}

}  // namespace maxbatch::cli
