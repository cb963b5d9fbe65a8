#include "argument_values.hpp"
#include "command.hpp"
#include "predict_report.hpp"
#include "search_arguments.hpp"
#include "usage_error.hpp"
#include <maxbatch/search/errors.hpp>
#include <maxbatch/simulation/allocator_settings.hpp>
#include <maxbatch/simulation/batch_prediction.hpp>
#include <maxbatch/simulation/card_catalogue.hpp>
#include <maxbatch/simulation/program_run.hpp>
#include <maxbatch/simulation/trace_file.hpp>
#include <maxbatch/simulation/trace_scaling.hpp>

#include <CLI/CLI.hpp>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace maxbatch::cli {
namespace {

struct PredictArguments {
  std::vector<std::string> recordings;  // FILE=BATCH
  std::optional<Bytes> budget;
  std::string card;
  std::string recorded_on;
  std::optional<std::string> settings;
  std::int64_t seeds = kUsualDraws;
  std::int64_t maximum = PredictionOptions{}.largest_allowed;
  std::string write;
  std::optional<std::int64_t> write_batch_size;
  OutputFormat format = OutputFormat::table;
};

struct NamedRecording {
  std::string file;
  std::int64_t batch_size = 0;
  AllocationTrace trace;
};

/// All that can be wrong with the arguments is said before a file is opened.
std::vector<NamedRecording> named_recordings(std::vector<std::string> const& arguments) {
  std::vector<NamedRecording> recordings;
  for (auto const& argument : arguments) {
    auto const equals = argument.rfind('=');
    if (equals == std::string::npos || equals == 0) {
      throw UsageError("'" + argument +
                       "' does not say at which batch size it was recorded; write FILE=BATCH, such as " +
                       argument.substr(0, equals) + "=8");
    }
    NamedRecording recording;
    recording.file = argument.substr(0, equals);
    recording.batch_size = read_count("the batch size of " + recording.file, argument.substr(equals + 1), 1);
    for (auto const& other : recordings) {
      if (other.batch_size == recording.batch_size) {
        throw UsageError("batch size " + std::to_string(recording.batch_size) + " was given twice: " + other.file +
                         " and " + recording.file);
      }
    }
    recordings.push_back(std::move(recording));
  }
  if (recordings.size() < 2) {
    throw UsageError("predict needs recordings of at least two batch sizes; one says nothing about how memory grows");
  }
  std::sort(recordings.begin(), recordings.end(),
            [](auto const& a, auto const& b) { return a.batch_size < b.batch_size; });
  return recordings;
}

/// Nothing was asked for after it.
bool ends_in_refusal(AllocationTrace const& trace) {
  for (auto event = trace.events.rbegin(); event != trace.events.rend(); ++event) {
    if (event->action == TraceAction::alloc) { return false; }
    if (event->action == TraceAction::oom) { return true; }
  }
  return false;
}

void read(std::vector<NamedRecording>& recordings) {
  for (auto& recording : recordings) {
    try {
      recording.trace = read_allocation_trace(recording.file);
    } catch (TraceError const& error) { throw UsageError(error.what()); }
    if (ends_in_refusal(recording.trace)) {
      throw UsageError(recording.file +
                       " ends with a request that was refused: what would have come then is not known. Record a "
                       "smaller batch, or with more memory");
    }
  }
}

/// The card that was recorded on: as told, as the recording says, or an H200.
Card const& recorded_card(PredictArguments const& arguments, AllocationTrace const& trace, bool& is_known) {
  is_known = true;
  if (!arguments.recorded_on.empty()) { return read_card("--recorded-on", arguments.recorded_on); }
  for (auto const& card : CardCatalogue::built_in().all()) {
    if (!trace.device_name.empty() && card.device_name == trace.device_name) { return card; }
  }
  is_known = false;
  return CardCatalogue::built_in().find("h200");
}

ReductionHardware reduction_hardware(Card const& card) {
  return {card.multiprocessors, card.architecture.max_threads_per_multiprocessor};
}

/// LibTorch's default for cuBLAS: 32 MiB on compute capability 9.0, else 8,320 KiB.
Bytes matrix_workspace(Card const& card) {
  auto const is_hopper = card.architecture.capability == ComputeCapability{9, 0};
  return is_hopper ? Bytes{std::int64_t{32} << 20} : Bytes{8519680};
}

AllocatorSettings settings_of(PredictArguments const& arguments, AllocationTrace const& trace) {
  auto const& text = arguments.settings ? *arguments.settings : trace.allocator_settings;
  try {
    return parse_allocator_settings(text);
  } catch (InvalidAllocatorSettings const& error) {
    throw UsageError((arguments.settings ? "--allocator-settings: " : "recorded with other settings: ") +
                     std::string(error.what()));
  }
}

PredictionTarget target_of(PredictArguments const& arguments) {
  PredictionTarget target;
  if (!arguments.card.empty()) {
    target = whole_card(read_card("--card", arguments.card));
  } else {
    target.limit = arguments.budget;
    constexpr std::int64_t most_that_can_be_simulated = std::int64_t{1} << 40;
    target.device.total_memory = Bytes{most_that_can_be_simulated};
  }
  return target;
}

TraceScaling scale(std::vector<NamedRecording> const& recordings, ScalingOptions const& options) {
  std::vector<SizedProgram> programs;
  for (auto const& recording : recordings) {
    try {
      programs.push_back({recording.batch_size, program_of(recording.trace)});
    } catch (TraceError const& error) { throw UsageError(recording.file + ": " + error.what()); }
  }
  try {
    return TraceScaling(std::move(programs), options);
  } catch (TraceError const& error) { throw UsageError(error.what()); }
}

bool ends_in(std::string const& text, std::string_view ending) {
  return text.size() >= ending.size() && text.compare(text.size() - ending.size(), ending.size(), ending) == 0;
}

TraceFormat format_for(std::string const& path) {
  auto const plain = ends_in(path, ".gz") ? path.substr(0, path.size() - 3) : path;
  if (ends_in(plain, ".csv")) { return TraceFormat::csv; }
  return ends_in(plain, ".pickle") ? TraceFormat::snapshot : TraceFormat::binary;
}

void write_scaled(PredictArguments const& arguments, TraceScaling const& scaling, PredictionTarget const& target,
                  std::optional<std::int64_t> answer) {
  auto const batch_size = arguments.write_batch_size ? arguments.write_batch_size : answer;
  if (!batch_size) { throw UsageError("--write: nothing fits; choose a size with --write-batch N"); }
  auto const program = scaling.at(*batch_size);
  ProgramRunOptions options;
  options.settings = target.settings;
  options.device = target.device;
  options.placement = target.placement;
  options.placement.seed = 1;
  // Without the limit: so that the recording is whole, and can be replayed under any.
  auto const trace = trace_of_run(program, driver_events_of(program, scaling.first_sample_request()), options);
  try {
    write_allocation_trace(arguments.write, trace, format_for(arguments.write));
  } catch (TraceError const& error) { throw UsageError(std::string("--write: ") + error.what()); }
}

void add_notes(PredictReport& report, TraceScaling const& scaling, bool card_is_known, Card const& recorded) {
  auto const note = [&](std::string text) { report.notes.push_back(std::move(text)); };
  if (!card_is_known) {
    note("the recordings do not name their card: taken to be an H200; say otherwise with --recorded-on");
  }
  if (!report.card.empty() && report.card != recorded.name) {
    note("recorded on " + std::string(recorded.name) + ": for " + report.card +
         " the scratch of sums and cuBLAS's workspaces have been put in its sizes; what other kernels and convolutions "
         "take there is not known");
  }
  std::string others;
  for (auto const& recording : report.recordings) {
    if (!recording.same_structure) { others += (others.empty() ? "" : ", ") + std::to_string(recording.batch_size); }
  }
  if (!others.empty()) {
    note("at batch " + others + " the program makes other requests than at " +
         std::to_string(report.recordings.back().batch_size) +
         (scaling.first_new_request() ? ", from request " + std::to_string(*scaling.first_new_request()) + " on" : "") +
         "; two recordings of one structure predict better");
  }
  if (report.statement && report.statement->loops > 0) {
    note("loops over the samples were found in " + std::to_string(report.statement->loops) +
         " places: " + std::to_string(report.statement->loop_requests) + " requests were added or taken away");
  }
  if (report.disproved_requests > 0) {
    note(std::to_string(report.disproved_requests) + " of " + std::to_string(report.checked_requests) +
         " requests that three recordings or more have lie on no line");
  }
  if (!report.prediction.gaps.empty()) {
    note("sizes below the answer that are predicted not to fit: " + std::to_string(report.prediction.gaps.front()) +
         (report.prediction.gaps.size() > 1 ? " and others" : ""));
  }
  if (!report.prediction.elastic_largest_batch_size) {
    note("one sample's requests alone sum to " + to_string(least_peak(scaling.at(1))) + ", of which " +
         to_string(report.budget) + " are to be had");
  }
  note("nothing was run: `maxbatch find` tells what fits");
}

void check(PredictArguments const& arguments) {
  if (!arguments.budget && arguments.card.empty()) { throw UsageError("give --budget BYTES or --card NAME"); }
  if (arguments.write_batch_size && arguments.write.empty()) { throw UsageError("--write-batch needs --write FILE"); }
  if (arguments.write.empty()) { return; }
  auto const folder = std::filesystem::absolute(arguments.write).parent_path();
  if (std::filesystem::is_directory(arguments.write) || !std::filesystem::is_directory(folder)) {
    throw UsageError("--write: " + arguments.write + " cannot be written");
  }
}

ExitCode run(PredictArguments const& arguments, Surroundings const& surroundings) {
  check(arguments);
  auto recordings = named_recordings(arguments.recordings);
  auto target = target_of(arguments);
  read(recordings);
  auto const& largest = recordings.back().trace;
  target.settings = settings_of(arguments, largest);
  bool card_is_known = true;
  auto const& recorded = recorded_card(arguments, largest, card_is_known);
  auto const& card = arguments.card.empty() ? recorded : read_card("--card", arguments.card);
  ScalingOptions scaling_options;
  scaling_options.recorded_on = reduction_hardware(recorded);
  scaling_options.scaled_to = reduction_hardware(card);
  if (matrix_workspace(recorded) != matrix_workspace(card)) {
    scaling_options.matrix_workspace = {matrix_workspace(recorded), matrix_workspace(card)};
  }
  auto const scaling = scale(recordings, scaling_options);

  PredictionOptions options;
  options.draws = static_cast<int>(arguments.seeds);
  options.largest_allowed = arguments.maximum;
  PredictReport report;
  report.prediction = predict_largest_batch(scaling, target, options);
  for (std::size_t i = 0; i < recordings.size(); ++i) {
    report.recordings.push_back({recordings[i].file, recordings[i].batch_size,
                                 scaling.recordings()[i].program.requests.size(), scaling.has_same_structure()[i]});
  }
  report.limit = arguments.budget;
  report.card = arguments.card.empty() ? "" : std::string(card.name);
  report.budget = target.budget();
  report.allocator_settings = to_string(target.settings);
  report.recorded_on = std::string(recorded.name);
  auto const answer = report.prediction.elastic_largest_batch_size;
  if (answer) { report.statement = scaling.statement(*answer); }
  report.checked_requests = scaling.checked_requests();
  report.disproved_requests = scaling.disproved_requests();
  add_notes(report, scaling, card_is_known, recorded);
  if (!arguments.write.empty()) { write_scaled(arguments, scaling, target, answer); }
  surroundings.out << (arguments.format == OutputFormat::json ? predict_json(report) : predict_text(report));
  return answer ? ExitCode::answered : ExitCode::nothing_fits;
}

void add_options(CLI::App& command, std::shared_ptr<PredictArguments> const& arguments) {
  command.add_option("FILE=BATCH", arguments->recordings, "recordings, and the batch size of each")
      ->required()
      ->type_name("");
  auto const add = [&](char const* option, char const* type, auto reader, std::string const& text) {
    return command.add_option_function<std::string>(option, reader, text)->type_name(type);
  };
  auto* const budget = add(
      "--budget", "BYTES",
      [arguments](std::string const& text) { arguments->budget = read_bytes("--budget", text, Bytes{1}); },
      "what the allocator may reserve, as a memory fraction sets it: 10700MiB");
  command
      .add_option("--card", arguments->card,
                  "a whole card, as `maxbatch cards` lists it, less what the driver takes of it")
      ->type_name("NAME")
      ->excludes(budget);
  command
      .add_option("--recorded-on", arguments->recorded_on,
                  "the card of the recordings; default what they say, else h200")
      ->type_name("NAME");
  add(
      "--allocator-settings", "STRING", [arguments](std::string const& text) { arguments->settings = text; },
      "as in PYTORCH_CUDA_ALLOC_CONF; default those that the recordings tell of, else LibTorch's defaults");
  add(
      "--seeds", "N",
      [arguments](std::string const& text) {
        arguments->seeds = read_count("--seeds", text, 1);
        constexpr std::int64_t most = 1000;
        if (arguments->seeds > most) { throw UsageError("--seeds '" + text + "' is more than 1000 draws"); }
      },
      "how many draws of the addresses decide; default " + std::to_string(kUsualDraws));
  add(
      "--max", "N", [arguments](std::string const& text) { arguments->maximum = read_count("--max", text, 1); },
      "the largest size that is looked at; default " + std::to_string(PredictionOptions{}.largest_allowed));
  command
      .add_option(
          "--write", arguments->write,
          "write the scaled recording of the answer there: .csv, .pickle (a memory snapshot) or our own format, "
          "with .gz compressed")
      ->type_name("FILE");
  add(
      "--write-batch", "N",
      [arguments](std::string const& text) { arguments->write_batch_size = read_count("--write-batch", text, 1); },
      "of this batch size instead");
  add_format_option(command, arguments->format);
}

}  // namespace

void add_predict_command(CLI::App& app, Command& chosen) {
  auto* const command = app.add_subcommand(
      "predict", "The largest batch in a budget, from recordings of two small batches; runs nothing");
  auto const arguments = std::make_shared<PredictArguments>();
  add_options(*command, arguments);
  command->footer(
      "The recordings (as `maxbatch replay` reads them: from the start of the process, a few training steps) are "
      "aligned\n"
      "request by request. Each size gets its law: constant, so many bytes a sample, the scratch of a sum over rows; "
      "loops\n"
      "over samples get further iterations. The program that results is run through a simulated allocator at one size\n"
      "after the other. Best are the two smallest sizes of 2 and more that make the same requests; a third checks the "
      "laws.\n\n"
      "What a convolution takes as workspace follows no law, and under a tight budget cuDNN takes less. So there are "
      "two\n"
      "answers: largest_batch_size with workspaces as recorded, and elastic_largest_batch_size with libraries doing "
      "without\n"
      "those that are refused. They differ only where such a workspace is what does not fit; the truth lies "
      "between.\n\n"
      "JSON: largest_batch_size, elastic_largest_batch_size (null: nothing fits), is_elastic, refused_workspace_bytes "
      "and\n"
      "short_by_bytes (of an elastic answer), gaps (smaller sizes that do not fit), limit_bytes or card, "
      "budget_bytes,\n"
      "recordings (file, batch_size, requests, same_structure), candidates (batch_size, workspaces, fits, peaks, "
      "draws),\n"
      "extrapolated (requests and bytes_at_peak by law, loops, reductions_begun), checked_requests and "
      "disproved_requests\n"
      "(with three recordings or more), notes.\n\n"
      "Examples:\n"
      "  maxbatch predict swin-b6.csv.gz=6 swin-b7.csv.gz=7 --budget 10700MiB\n"
      "  maxbatch predict b2.pickle=2 b3.pickle=3 --card rtx-4090 --format json | jq .largest_batch_size\n"
      "  maxbatch predict b2.csv=2 b3.csv=3 --budget 8GiB --write b64.trace.gz --write-batch 64\n\n"
      "Exit codes: 0 a prediction, 2 bad usage, or recordings that cannot be read or are not of one program,\n"
      "3 not even one sample is predicted to fit.");
  command->callback([arguments, &chosen] {
    chosen = [arguments](Surroundings const& surroundings) { return run(*arguments, surroundings); };
  });
}

}  // namespace maxbatch::cli
