#include "argument_values.hpp"
#include "command.hpp"
#include "device_selection.hpp"
#include "easy_inputs.hpp"
#include "fresh_answer.hpp"
#include "run_search.hpp"
#include "script_arguments.hpp"
#include "stop_signal.hpp"
#include "usage_error.hpp"
#if defined(MAXBATCH_HAS_DRY_RUN)
#include "program_search.hpp"
#endif
#include <maxbatch/report/result_json.hpp>
#include <maxbatch/report/result_table.hpp>
#include <maxbatch/simulation/trace_file.hpp>
#include <maxbatch/training/trace_recording.hpp>

#include <CLI/CLI.hpp>

#include <filesystem>
#include <memory>
#include <utility>
#include <vector>

namespace maxbatch::cli {
namespace {

struct FindArguments {
  std::string model;
  std::optional<Bytes> budget;
  std::string record;  // a file; empty: none
  ScriptArguments script;
  SearchArguments search;
  // Of a program:
  std::string vary;
  bool to_its_end = false;
  std::optional<std::int64_t> jobs;
  std::vector<std::string> meaningless;  // options that were given, and have no meaning for a program
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

#if defined(MAXBATCH_HAS_DRY_RUN)
void check_program_arguments(FindArguments const& arguments) {
  if (!arguments.script.file.empty()) {
    throw UsageError("--script " + arguments.script.file +
                     " and a program after -- are two questions: give one of them");
  }
  if (!arguments.model.empty()) {
    throw UsageError("--model " + arguments.model + " and a program after -- are two questions: give one of them");
  }
  if (!arguments.meaningless.empty()) {
    throw UsageError(arguments.meaningless.front() +
                     " is about models of ours; a program after -- has its own way to train: leave it out");
  }
  if (read_device(arguments.search.device).kind == DeviceChoice::Kind::cpu) {
    throw UsageError(
        "a program's memory is watched in LibTorch's CUDA allocator: give --card NAME for a card that is not here "
        "(maxbatch cards lists them), or --device cuda:0");
  }
  auto const& search = arguments.search.finder.search;
  if (search.maximum && *search.maximum < search.minimum) {
    throw UsageError("--min " + std::to_string(search.minimum) + " is above --max " + std::to_string(*search.maximum) +
                     ": no size is left");
  }
  if (arguments.search.finder.steps < 2) {
    throw UsageError("--steps 1 would miss the optimizer's state, which the first step makes: give 2 or more");
  }
}

ExitCode find_for_program(FindArguments const& arguments, Surroundings const& surroundings) {
  check_program_arguments(arguments);
  VariedCommand const command(surroundings.program, arguments.vary);
  ProgramSearchOptions options;
  options.device = read_device(arguments.search.device);
  options.budget = arguments.budget;
  options.finder = arguments.search.finder;
  options.finder.search.divisor_of = arguments.search.effective_batch;
  if (arguments.search.trial_timeout) { options.trial_timeout = *arguments.search.trial_timeout; }
  options.to_its_end = arguments.to_its_end;
  if (arguments.jobs) { options.jobs = static_cast<std::size_t>(*arguments.jobs); }
  options.show = [&surroundings](std::string_view text) { surroundings.log.debug(text); };
  ReportSubject subject;
  subject.command = command.text();
  subject.varied = command.name();
  subject.card = options.device.card;
  subject.effective_batch = arguments.search.effective_batch;
  try {
    StopSignal const stop_signal;
    FinderResult result;
    {
      ProgressReporter progress(surroundings.status, "");
      result = search_program(command, options, &progress);
    }
    for (auto const& warning : result.warnings) { surroundings.log.info(warning); }
    if (!result.replay_problem.empty()) { surroundings.log.info("no replay of small sizes: " + result.replay_problem); }
    surroundings.out << (arguments.search.format == OutputFormat::json ? to_json(result, subject) + '\n'
                                                                       : to_text(result, subject));
    return exit_code_of(result);
  } catch (ProgramFailed const& error) {
    surroundings.status.write_line("maxbatch: the program failed at the smallest size, and not for memory: " +
                                   std::string(error.what()));
    return ExitCode::step_failed;
  }
}
#endif

ExitCode find(FindArguments const& arguments, Surroundings const& surroundings) {
#if defined(MAXBATCH_HAS_DRY_RUN)
  if (!surroundings.program.empty()) { return find_for_program(arguments, surroundings); }
#endif
  if (arguments.model.empty() && arguments.script.file.empty()) {
    throw UsageError(
        "--model or --script is required, or a program after --: maxbatch find --card NAME --vary --batch-size -- "
        "python train.py --batch-size 8");
  }
  if (!arguments.vary.empty() || arguments.to_its_end || arguments.jobs) {
    throw UsageError("--vary, --to-the-end and --jobs are about a program, which stands after --");
  }
  auto const model = chosen_model(arguments.model, arguments.script, surroundings.models);
  check_together(arguments.search);
  check_record(arguments);
  auto result = run_search(model, arguments.search, arguments.budget, "", surroundings);
  result = fresh_answer(model, arguments.search, arguments.budget, std::move(result), surroundings);
  result.easy_inputs = run_easy_inputs(model, result, arguments.search, arguments.budget, surroundings);
  auto const subject = subject_for(model, arguments.search);
  surroundings.out << (arguments.search.format == OutputFormat::json ? to_json(result, subject) + '\n'
                                                                     : to_text(result, subject));
  if (!arguments.record.empty()) { record(arguments, model, result, surroundings); }
  return exit_code_of(result);
}

}  // namespace

void add_find_command(CLI::App& app, Command& chosen) {
  auto* const command = app.add_subcommand("find", "The largest batch of one model, or of any program, with its proof");
  auto const arguments = std::make_shared<FindArguments>();
  command->add_option("--model", arguments->model, "a name that `maxbatch models` lists; or a program after --")
      ->type_name("NAME")
      ->group("Where");
  add_script_options(*command, arguments->script);
  add_budget_option(*command, arguments->budget);
  add_search_options(*command, arguments->search);
  command
      ->add_option(
          "--record", arguments->record,
          "run the answer once more and write what the caching allocator did as CSV (compressed if the name ends "
          "in .gz); for cuda devices")
      ->type_name("FILE")
      ->group("Output");
  command
      ->add_option_function<std::string>(
          "--card", [arguments](std::string const& text) { arguments->search.device = read_card("--card", text).name; },
          "a card that is not here; the same as --device with its name")
      ->type_name("NAME")
      ->group("Where");
#if defined(MAXBATCH_HAS_DRY_RUN)
  auto const group = std::string("A program after --");
  command
      ->add_option("--vary", arguments->vary,
                   "the program's argument that the number is the value of, such as --batch-size; default: each {} in "
                   "its command line")
      ->type_name("ARGUMENT")
      ->group(group);
  command
      ->add_flag(
          "--to-the-end", arguments->to_its_end,
          "let each trial run to the program's own end; default: until --steps steps have run and what they take "
          "repeats itself")
      ->group(group);
  command
      ->add_option_function<std::string>(
          "--jobs", [arguments](std::string const& text) { arguments->jobs = read_count("--jobs", text, 1); },
          "trials at once, on a card that is not here; default as processors and memory allow")
      ->type_name("N")
      ->group(group);
#endif
  command->footer(
      "BYTES is a number with a unit: 64MiB, 1.5GiB, 12GB (decimal); without one it is bytes.\n\n"
      "Examples:\n"
      "  maxbatch find --model small_cnn --budget 64MiB\n"
      "  maxbatch find --model small_cnn --budget 64MiB --headroom 4MiB --multiple-of 8\n"
      "  maxbatch find --model small_transformer --budget 256MiB --effective-batch 96 --format json\n"
      "  maxbatch find --model small_cnn --budget 1GiB --image-size 64x64 --max-seconds 20\n"
      "  maxbatch find --script net.pt --input-shape N,3,224,224 --device rtx-4090\n"
      "  maxbatch find --model gpt2 --sequence-length 512 --precision bf16 --checkpoint --device h200\n"
      "  maxbatch find --model small_cnn --device cuda:0 --budget 10700MiB --record trace.csv.gz\n"
      "  maxbatch find --card rtx-4090 --vary --batch-size -- python train.py --batch-size 8\n"
      "  maxbatch find --device cuda:0 --budget 10700MiB --min 64 --multiple-of 32 -- python train.py --img-size {}\n\n"
      "A program is run once for each number, unmodified, and watched from outside: its steps are seen by LibTorch's\n"
      "optimizers, and a trial is ended when they repeat themselves. It writes the files that it always writes.\n"
      "--budget is what LibTorch's allocator may reserve; --trial-timeout is 600 where none is given.\n\n"
      "On a card that is not here addresses are those of an empty host, as with dry-run --seed 0, so that no draw\n"
      "decides the answer; dry-run itself takes one (--seed 2), and may differ by a size at the boundary.\n\n"
      "Exit codes: 0 an answer with its proof, 1 the step failed for another reason than memory,\n"
      "2 bad usage, 3 nothing fits, 4 stopped early (best so far is printed).");
  command->callback([arguments, command, &chosen] {
    for (auto const* const option : command->get_options()) {
      auto const name = option->get_name();
      auto const is_of_models = option->get_group() == kRecipeGroup || name == "--record" || name == "--rehearse" ||
                                name == "--fresh-processes" || name == "--no-fresh-processes";
      if (is_of_models && option->count() > 0) { arguments->meaningless.push_back(name); }
    }
    chosen = [arguments](Surroundings const& surroundings) { return find(*arguments, surroundings); };
  });
}

}  // namespace maxbatch::cli
