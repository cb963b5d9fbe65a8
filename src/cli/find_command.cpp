#include "argument_values.hpp"
#include "command.hpp"
#include "device_selection.hpp"
#include "run_search.hpp"
#include "script_arguments.hpp"
#include "usage_error.hpp"
#include <maxbatch/report/result_json.hpp>
#include <maxbatch/report/result_table.hpp>
#include <maxbatch/simulation/trace_file.hpp>
#include <maxbatch/training/trace_recording.hpp>

#include <CLI/CLI.hpp>

#include <filesystem>
#include <memory>

namespace maxbatch::cli {
namespace {

struct FindArguments {
  std::string model;
  std::optional<Bytes> budget;
  std::string record;  // a file; empty: none
  ScriptArguments script;
  SearchArguments search;
};

/// Before any work: a search that ran for minutes should not end with a trace that nobody can write.
void check_record(FindArguments const& arguments) {
  if (arguments.record.empty()) { return; }
  if (arguments.search.device.rfind("cuda", 0) != 0) {
    throw UsageError("--record records the CUDA caching allocator, and --device is '" + arguments.search.device +
                     "'; use --device cuda:0");
  }
  auto const folder = std::filesystem::absolute(arguments.record).parent_path();
  if (std::filesystem::is_directory(arguments.record) || !std::filesystem::is_directory(folder)) {
    throw UsageError("--record: " + arguments.record + " cannot be written");
  }
}

/// Runs the answer once more, under the budget that it was found under.
void record(FindArguments const& arguments, ModelFactory const& model, FinderResult const& result,
            Surroundings const& surroundings) {
  if (!result.batch_size()) {
    surroundings.log.warn("nothing fits, so " + arguments.record + " was not written");
    return;
  }
  auto const device = make_device(arguments.search.device, result.device.budget);
  auto const recorded = record_steps(*device, model, recipe_for(arguments.search), *result.batch_size(), result.steps);
  write_allocation_trace(arguments.record, recorded.trace, TraceFormat::csv);
  surroundings.log.info("recorded " + std::to_string(recorded.trace.events.size()) + " events of batch " +
                        std::to_string(*result.batch_size()) + " in " + arguments.record);
  if (!is_fit(recorded.outcome.verdict)) {
    surroundings.log.warn("this run of the answer did not pass, and the trace ends there: " + recorded.outcome.reason);
  }
  if (recorded.lost_events > 0) {
    surroundings.log.warn(std::to_string(recorded.lost_events) +
                          " more events had no room in the recorder's buffer: the " + "trace ends early");
  }
}

ExitCode find(FindArguments const& arguments, Surroundings const& surroundings) {
  auto const model = chosen_model(arguments.model, arguments.script, surroundings.models);
  check_together(arguments.search);
  check_record(arguments);
  auto const result = run_search(model, arguments.search, arguments.budget, "", surroundings);
  auto const subject = subject_for(model, arguments.search);
  surroundings.out << (arguments.search.format == OutputFormat::json ? to_json(result, subject) + '\n'
                                                                     : to_text(result, subject));
  if (!arguments.record.empty()) { record(arguments, model, result, surroundings); }
  return exit_code_of(result);
}

}  // namespace

void add_find_command(CLI::App& app, Command& chosen) {
  auto* const command = app.add_subcommand("find", "The largest batch of one model, with its proof");
  auto const arguments = std::make_shared<FindArguments>();
  command->add_option("--model", arguments->model, "a name that `maxbatch models` lists")
      ->type_name("NAME")
      ->group("Where");
  add_script_options(*command, arguments->script);
  command
      ->add_option_function<std::string>(
          "--budget",
          [arguments](std::string const& text) { arguments->budget = read_bytes("--budget", text, Bytes{1}); },
          "memory that the training may take; default what the device has (cpu: half of the machine's memory)")
      ->type_name("BYTES")
      ->group("Where");
  add_search_options(*command, arguments->search);
  command
      ->add_option(
          "--record", arguments->record,
          "run the answer once more and write what the caching allocator did as CSV (compressed if the name ends "
          "in .gz); for cuda devices")
      ->type_name("FILE")
      ->group("Output");
  command->footer(
      "BYTES is a number with a unit: 64MiB, 1.5GiB, 12GB (decimal); without one it is bytes.\n\n"
      "Examples:\n"
      "  maxbatch find --model small_cnn --budget 64MiB\n"
      "  maxbatch find --model small_cnn --budget 64MiB --headroom 4MiB --multiple-of 8\n"
      "  maxbatch find --model small_transformer --budget 256MiB --effective-batch 96 --format json\n"
      "  maxbatch find --model small_cnn --budget 1GiB --image-size 64x64 --max-seconds 20\n"
      "  maxbatch find --script net.pt --input-shape N,3,224,224 --device rtx-4090\n"
      "  maxbatch find --model gpt2 --sequence-length 512 --precision bf16 --checkpoint --device h200\n"
      "  maxbatch find --model small_cnn --device cuda:0 --budget 10700MiB --record trace.csv.gz\n\n"
      "Exit codes: 0 an answer with its proof, 1 the step failed for another reason than memory,\n"
      "2 bad usage, 3 nothing fits, 4 stopped early (best so far is printed).");
  command->callback([arguments, &chosen] {
    chosen = [arguments](Surroundings const& surroundings) { return find(*arguments, surroundings); };
  });
}

}  // namespace maxbatch::cli
