#include "argument_values.hpp"
#include "command.hpp"
#include "search_arguments.hpp"
#include "trace_comparison.hpp"
#include "usage_error.hpp"
#include <maxbatch/simulation/trace_file.hpp>

#include <CLI/CLI.hpp>

#include <algorithm>
#include <memory>
#include <optional>
#include <string>

namespace maxbatch::cli {
namespace {

struct CompareArguments {
  std::string a;
  std::string b;
  std::optional<std::int64_t> device;
  OutputFormat format = OutputFormat::table;
};

AllocationTrace read_one(std::string const& file, std::optional<std::int64_t> device) {
  try {
    auto traces = read_allocation_traces(file);
    if (!device && traces.size() == 1) { return std::move(traces.front()); }
    auto const found = std::find_if(traces.begin(), traces.end(),
                                    [&](auto const& trace) { return trace.device_index == device.value_or(-1); });
    if (found != traces.end()) { return std::move(*found); }
    throw UsageError(file + " holds the recordings of " + std::to_string(traces.size()) +
                     " devices; choose one that it has with --device");
  } catch (TraceError const& error) { throw UsageError(error.what()); }
}

ExitCode compare(CompareArguments const& arguments, Surroundings const& surroundings) {
  auto const comparison =
      compare_traces(read_one(arguments.a, arguments.device), read_one(arguments.b, arguments.device));
  if (!comparison) {
    throw UsageError(arguments.a + " and " + arguments.b +
                     " differ in more than 8000 allocations: they are hardly recordings of one program");
  }
  surroundings.out << (arguments.format == OutputFormat::json ? comparison_json(*comparison, arguments.a, arguments.b)
                                                              : comparison_text(*comparison, arguments.a, arguments.b));
  return comparison->is_same() ? ExitCode::answered : ExitCode::step_failed;
}

}  // namespace

void add_compare_traces_command(CLI::App& app, Command& chosen) {
  auto* const command = app.add_subcommand(
      "compare-traces",
      "Two recordings of one program beside each other: what differs, and how much of it at the peak");
  auto const arguments = std::make_shared<CompareArguments>();
  command->add_option("A", arguments->a, "a recording, as `maxbatch replay` reads it: of a dry run, say")
      ->required()
      ->type_name("");
  command->add_option("B", arguments->b, "another one: a memory snapshot of a card, say")->required()->type_name("");
  command
      ->add_option_function<std::string>(
          "--device", [arguments](std::string const& text) { arguments->device = read_count("--device", text, 0); },
          "which, where a snapshot holds several")
      ->type_name("N");
  add_format_option(*command, arguments->format);
  command->footer(
      "Allocations are compared by their sizes, in their order. Where a recording has stacks, the operator is named,\n"
      "or the line of Python. Both by PyTorch itself, first thing in the program and at its end:\n\n"
      "  torch.cuda.memory._record_memory_history(max_entries=10**7)\n"
      "  torch.cuda.memory._dump_snapshot(\"card.pickle\")\n\n"
      "  maxbatch dry-run --card rtx-4090 -- python train.py      writes dry.pickle\n"
      "  python train.py                                          on the card, writes card.pickle\n"
      "  maxbatch compare-traces dry.pickle card.pickle\n\n"
      "Exit codes: 0 the two are the same, 1 they differ, 2 bad usage, or a file that cannot be read.");
  command->callback([arguments, &chosen] {
    chosen = [arguments](Surroundings const& surroundings) { return compare(*arguments, surroundings); };
  });
}

}  // namespace maxbatch::cli
