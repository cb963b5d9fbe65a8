#include "argument_values.hpp"
#include "command.hpp"
#include "replay_report.hpp"
#include "search_arguments.hpp"
#include "usage_error.hpp"
#include <maxbatch/simulation/allocator_settings.hpp>
#include <maxbatch/simulation/batch_prediction.hpp>
#include <maxbatch/simulation/card_catalogue.hpp>
#include <maxbatch/simulation/replay_preparation.hpp>
#include <maxbatch/simulation/trace_file.hpp>
#include <maxbatch/simulation/trace_replay.hpp>

#include <CLI/CLI.hpp>

#include <algorithm>
#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace maxbatch::cli {
namespace {

struct ReplayArguments {
  std::vector<std::string> files;
  std::optional<Bytes> budget;
  std::string card;
  std::optional<std::string> settings;
  bool modelled_addresses = false;
  std::optional<std::int64_t> seeds;
  OutputFormat format = OutputFormat::table;
};

/// One device's recording in one file.
struct Recording {
  std::string file;
  bool is_one_of_several = false;
  AllocationTrace trace;
};

std::string name_of(Recording const& recording) {
  return recording.is_one_of_several ? recording.file + ", device " + std::to_string(recording.trace.device_index)
                                     : recording.file;
}

/// All of them before anything is replayed: a file that cannot be read is said at once.
std::vector<Recording> read_recordings(std::vector<std::string> const& files) {
  std::vector<Recording> recordings;
  for (auto const& file : files) {
    try {
      auto traces = read_allocation_traces(file);
      for (auto& trace : traces) { recordings.push_back({file, traces.size() > 1, std::move(trace)}); }
    } catch (TraceError const& error) { throw UsageError(error.what()); }
  }
  return recordings;
}

ReplayProgram program_for(Recording const& recording, std::optional<std::string> const& settings) {
  std::optional<AllocatorSettings> wanted;
  if (settings) {
    try {
      wanted = parse_allocator_settings(*settings);
    } catch (InvalidAllocatorSettings const& error) {
      throw UsageError(std::string("--allocator-settings: ") + error.what());
    }
  }
  try {
    return make_replay_program(recording.trace, name_of(recording), wanted);
  } catch (TraceError const& error) { throw UsageError(error.what()); } catch (InvalidAllocatorSettings const& error) {
    throw UsageError(name_of(recording) + ": recorded with settings that cannot be followed: " + error.what() +
                     ". Give others with --allocator-settings");
  }
}

/// The settings may hold a limit, too: a fraction of the device.
std::optional<Bytes> limit_for(ReplayArguments const& arguments, ReplayProgram const& program, Card const* card) {
  if (arguments.budget) { return arguments.budget; }
  auto const fraction = program.settings.per_process_memory_fraction;
  if (!arguments.settings || fraction >= 1) { return std::nullopt; }
  auto const total = card != nullptr ? card->total_memory : program.total_memory.value_or(Bytes{0});
  if (total == Bytes{0}) {
    throw UsageError(
        "--allocator-settings: per_process_memory_fraction is of a device that the recording does not name; "
        "give --card or --budget");
  }
  return Bytes{static_cast<std::int64_t>(fraction * static_cast<double>(total.count))};
}

/// What one draw of the addresses showed.
struct Draw {
  ReplayOutcome outcome;
  Fragmentation at_peak;
  FittingLimits limits;

  Bytes peak() const { return Bytes{outcome.statistics.reserved_bytes.aggregate.peak}; }
};

Draw replay_once(ReplayProgram const& program, ReplayOptions const& options) {
  Draw draw;
  TraceReplay const replay(program, options);
  draw.outcome = replay.run();
  draw.at_peak = replay.fragmentation(draw.outcome, options.limit);
  // Of the allocator alone, whatever the card.
  auto without_card = options;
  without_card.device.reset();
  draw.limits = fitting_limits(TraceReplay(program, without_card));
  return draw;
}

/// Seeds 1 to `count`, on as many threads as there are cores.
std::vector<Draw> replay_draws(ReplayProgram const& program, ReplayOptions const& options, std::int64_t count) {
  std::vector<Draw> draws(static_cast<std::size_t>(count));
  std::atomic<std::size_t> next{0};
  auto const work = [&] {
    for (auto i = next++; i < draws.size(); i = next++) {
      auto own = options;
      own.placement.seed = i + 1;
      draws[i] = replay_once(program, own);
    }
  };
  std::vector<std::thread> helpers;
  auto const cores = std::max<std::size_t>(1, std::thread::hardware_concurrency());
  for (std::size_t i = 1; i < std::min(cores, draws.size()); ++i) { helpers.emplace_back(work); }
  work();
  for (auto& helper : helpers) { helper.join(); }
  return draws;
}

/// The draw that stands for all: with the most frequent peak of those that agree with the majority.
void summarise(std::vector<Draw> const& draws, ReplayEntry& entry) {
  entry.draws = modelled_peak(
      [&](std::uint64_t seed) -> std::optional<Bytes> {
        auto const& draw = draws[static_cast<std::size_t>(seed - 1)];
        return draw.outcome.fits ? std::optional(draw.peak()) : std::nullopt;
      },
      static_cast<int>(draws.size()));
  auto const fits = entry.draws->fits();
  auto const* typical = &draws.front();
  for (auto const& draw : draws) {
    if (draw.outcome.fits == fits && (!fits || draw.peak() == entry.draws->most_frequent)) {
      typical = &draw;
      break;
    }
  }
  entry.outcome = typical->outcome;
  entry.at_peak = typical->at_peak;
  entry.limits = typical->limits;
  for (auto const& draw : draws) {
    if (!draw.limits.smallest) {
      entry.highest_smallest_budget.reset();
      break;
    }
    entry.highest_smallest_budget = std::max(entry.highest_smallest_budget.value_or(Bytes{0}), *draw.limits.smallest);
  }
}

void add_notes(Recording const& recording, ReplayProgram const& program, bool asked_for_recorded, ReplayEntry& entry) {
  auto const note = [&](std::string text) { entry.notes.push_back(std::move(text)); };
  if (program.had_flushes && !entry.budget && entry.card.empty()) {
    note(
        "recorded under a limit that was felt, and replayed without one: --budget with the same limit gives what "
        "happened");
  }
  if (program.survived_refusals > 0) {
    note("while recording, requests were refused " + std::to_string(program.survived_refusals) +
         " times and the program went on; where they are served now, they are given back at once");
  }
  if (program.ends_in_refusal) {
    note("the recording ends with a refused request: what the program would have gone on with is not known");
  }
  if (!recording.trace.initial_segments.empty()) {
    note("the recording began late or was cut short: " + std::to_string(program.initial_segments) +
         " segments that existed before were worked out from its end");
  }
  if (program.empty_cache_calls > 0) {
    note("the program emptied the cache " + std::to_string(program.empty_cache_calls) + " times");
  }
  if (asked_for_recorded && entry.outcome.modelled_addresses) {
    note("no addresses of segments were recorded: those of the driver's rule are used");
  }
  if (entry.outcome.left_recording) {
    note("from the first purchase on that was not recorded, addresses are the driver's rule's");
  }
}

ReplayEntry replay(Recording const& recording, ReplayArguments const& arguments, Card const* card) {
  auto const program = program_for(recording, arguments.settings);
  ReplayOptions options;
  options.limit = limit_for(arguments, program, card);
  options.modelled_addresses = arguments.modelled_addresses || program.purchases.empty();
  if (card != nullptr) {
    auto const target = whole_card(*card);
    options.device = target.device;
    options.placement = target.placement;
  }
  ReplayEntry entry;
  entry.file = recording.file;
  if (recording.is_one_of_several) { entry.device_index = recording.trace.device_index; }
  entry.budget = options.limit;
  entry.card = card == nullptr ? "" : std::string(card->name);
  entry.allocator_settings = to_string(program.settings);
  entry.event_count = recording.trace.events.size();
  if (options.modelled_addresses) {
    summarise(replay_draws(program, options, arguments.seeds.value_or(kUsualDraws)), entry);
  } else {
    auto draw = replay_once(program, options);
    entry.outcome = std::move(draw.outcome);
    entry.at_peak = draw.at_peak;
    entry.limits = std::move(draw.limits);
  }
  add_notes(recording, program, !arguments.modelled_addresses, entry);
  return entry;
}

ExitCode run(ReplayArguments const& arguments, Surroundings const& surroundings) {
  if (arguments.seeds && !arguments.modelled_addresses) {
    throw UsageError("--seeds " + std::to_string(*arguments.seeds) +
                     " draws modelled addresses, and recorded ones are replayed; add --addresses modelled");
  }
  auto const* const card = arguments.card.empty() ? nullptr : &read_card("--card", arguments.card);
  auto const recordings = read_recordings(arguments.files);
  std::vector<ReplayEntry> entries;
  for (auto const& recording : recordings) {
    surroundings.status.show("replaying " + name_of(recording) + " (" + std::to_string(entries.size() + 1) + " of " +
                             std::to_string(recordings.size()) + ")");
    entries.push_back(replay(recording, arguments, card));
  }
  surroundings.status.clear();
  surroundings.out << (arguments.format == OutputFormat::json ? replay_json(entries) : replay_text(entries));
  auto const all_fit =
      std::all_of(entries.begin(), entries.end(), [](ReplayEntry const& entry) { return entry.outcome.fits; });
  return all_fit ? ExitCode::answered : ExitCode::nothing_fits;
}

}  // namespace

void add_replay_command(CLI::App& app, Command& chosen) {
  auto* const command = app.add_subcommand(
      "replay", "Whether a recorded program would have fitted under another budget, and what it needs");
  auto const arguments = std::make_shared<ReplayArguments>();
  command->add_option("FILE", arguments->files, "recordings of the caching allocator")->required()->type_name("");
  auto* const budget =
      command
          ->add_option_function<std::string>(
              "--budget",
              [arguments](std::string const& text) { arguments->budget = read_bytes("--budget", text, Bytes{1}); },
              "what the allocator may reserve, such as 10700MiB; default no limit")
          ->type_name("BYTES");
  command
      ->add_option("--card", arguments->card,
                   "a whole card instead, as `maxbatch cards` lists it, less what the driver takes of it")
      ->type_name("NAME")
      ->excludes(budget);
  command
      ->add_option_function<std::string>(
          "--allocator-settings", [arguments](std::string const& text) { arguments->settings = text; },
          "as in PYTORCH_CUDA_ALLOC_CONF; default those that the recording tells of, else LibTorch's defaults")
      ->type_name("STRING");
  command
      ->add_option_function<std::string>(
          "--addresses",
          [arguments](std::string const& text) {
            arguments->modelled_addresses = read_name("--addresses", text, {"recorded", "modelled"}) == "modelled";
          },
          "recorded: where the segments lay, for as long as the same are bought; modelled: where the driver's rule "
          "puts "
          "them, over several draws of what it leaves open; default recorded")
      ->type_name("NAME");
  command
      ->add_option_function<std::string>(
          "--seeds",
          [arguments](std::string const& text) {
            arguments->seeds = read_count("--seeds", text, 1);
            constexpr std::int64_t most = 1000;
            if (*arguments->seeds > most) { throw UsageError("--seeds '" + text + "' is more than 1000 draws"); }
          },
          "how many draws of modelled addresses; default " + std::to_string(kUsualDraws))
      ->type_name("N");
  add_format_option(*command, arguments->format);
  command->footer(
      "FILE is a recording by maxbatch, a memory snapshot of any PyTorch program, or CSV with the columns\n"
      "action,address,size,stream; compressed with gzip or not. A snapshot is made by\n"
      "  torch.cuda.memory._record_memory_history(max_entries=10**7)   # first thing in the program\n"
      "  torch.cuda.memory._dump_snapshot(\"FILE\")\n"
      "and read as data: nothing in it is run.\n\n"
      "Every request and free is made again, of a simulated allocator that is LibTorch 2.11's to the byte. Without\n"
      "--budget and --card there is no limit, also where the recording had one. The program is taken to make the same\n"
      "requests whatever the budget: a convolution that would take less scratch memory is not known of, and "
      "libraries'\n"
      "workspaces stay those of the card that it was recorded on.\n"
      "The smallest budget is the one from which on every budget fits, in steps of 2 MiB; others below may fit, "
      "too.\n\n"
      "Examples:\n"
      "  maxbatch replay snapshot.pickle --card rtx-4090\n"
      "  maxbatch replay swin-b18.csv.gz --budget 10700MiB --allocator-settings expandable_segments:True\n"
      "  maxbatch replay *.csv.gz --format json | jq '.[] | [.file, .smallest_budget_bytes]'\n\n"
      "Exit codes: 0 every recording fits, 2 bad usage or a file that cannot be read (nothing was replayed),\n"
      "3 some recording does not fit.");
  command->callback([arguments, &chosen] {
    chosen = [arguments](Surroundings const& surroundings) { return run(*arguments, surroundings); };
  });
}

}  // namespace maxbatch::cli
