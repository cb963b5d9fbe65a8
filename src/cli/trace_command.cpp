#include "argument_values.hpp"
#include "command.hpp"
#include "usage_error.hpp"
#include <maxbatch/simulation/trace_file.hpp>

#include <CLI/CLI.hpp>

#include <array>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace maxbatch::cli {
namespace {

struct ConvertArguments {
  std::string from;
  std::string to;
  std::optional<TraceFormat> format;
  std::optional<std::int64_t> device;
};

/// What the name of a file says that it will be.
std::optional<TraceFormat> format_by_name(std::string name) {
  auto const ends_in = [&](std::string_view ending) {
    return name.size() > ending.size() && name.compare(name.size() - ending.size(), ending.size(), ending) == 0;
  };
  constexpr std::string_view compressed = ".gz";
  if (ends_in(compressed)) { name.erase(name.size() - compressed.size()); }
  if (ends_in(".csv")) { return TraceFormat::csv; }
  for (auto const* ending : {".pickle", ".pkl"}) {
    if (ends_in(ending)) { return TraceFormat::snapshot; }
  }
  if (ends_in(".trace")) { return TraceFormat::binary; }
  return std::nullopt;
}

AllocationTrace const& trace_to_convert(std::vector<AllocationTrace> const& traces, ConvertArguments const& arguments) {
  std::string devices;
  for (auto const& trace : traces) {
    if (arguments.device == trace.device_index) { return trace; }
    devices += (devices.empty() ? "" : ", ") + std::to_string(trace.device_index);
  }
  if (arguments.device) {
    throw UsageError("--device " + std::to_string(*arguments.device) + ": " + arguments.from + " holds " + devices);
  }
  if (traces.size() > 1) {
    throw UsageError(arguments.from + " holds the devices " + devices + "; choose one with --device");
  }
  return traces.front();
}

ExitCode convert(ConvertArguments const& arguments, Surroundings const& surroundings) {
  auto const format = arguments.format ? arguments.format : format_by_name(arguments.to);
  if (!format) {
    throw UsageError("the name " + arguments.to +
                     " ends in none of .trace, .csv and .pickle (.gz may follow); say --to");
  }
  try {
    auto const traces = read_allocation_traces(arguments.from);
    auto const& trace = trace_to_convert(traces, arguments);
    write_allocation_trace(arguments.to, trace, *format);
    surroundings.log.info(std::to_string(trace.events.size()) + " events written to " + arguments.to);
  } catch (TraceError const& error) { throw UsageError(error.what()); }
  return ExitCode::answered;
}

}  // namespace

void add_trace_command(CLI::App& app, Command& chosen) {
  auto* const command = app.add_subcommand("trace", "Recordings of the caching allocator as files");
  command->require_subcommand(1);
  auto* const convert_command = command->add_subcommand("convert", "Writes a recording in another format");
  auto const arguments = std::make_shared<ConvertArguments>();
  convert_command->add_option("IN", arguments->from, "a recording, as `maxbatch replay` reads it")
      ->required()
      ->type_name("");
  convert_command->add_option("OUT", arguments->to, "the file to write; compressed if its name ends in .gz")
      ->required()
      ->type_name("");
  convert_command
      ->add_option_function<std::string>(
          "--to",
          [arguments](std::string const& text) {
            arguments->format = parse_trace_format(read_name("--to", text, {"binary", "csv", "snapshot"}));
          },
          "binary: all that a recording holds, about 8 bytes an event; csv: action,address,size,stream; snapshot: what "
          "PyTorch's memory viewer opens; default by OUT's name: .trace, .csv, .pickle")
      ->type_name("NAME");
  convert_command
      ->add_option_function<std::string>(
          "--device", [arguments](std::string const& text) { arguments->device = read_count("--device", text, 0); },
          "which, where a snapshot holds several")
      ->type_name("N");
  convert_command->footer(
      "Examples:\n"
      "  maxbatch trace convert snapshot.pickle snapshot.trace.gz\n"
      "  maxbatch trace convert run.csv.gz run.pickle     then open it at https://pytorch.org/memory_viz\n\n"
      "Exit codes: 0 written, 2 bad usage, or a file that cannot be read or written.");
  convert_command->callback([arguments, &chosen] {
    chosen = [arguments](Surroundings const& surroundings) { return convert(*arguments, surroundings); };
  });
}

}  // namespace maxbatch::cli
