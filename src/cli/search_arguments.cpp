#include "search_arguments.hpp"

#include "argument_values.hpp"
#include "device_selection.hpp"
#include "usage_error.hpp"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <chrono>
#include <functional>

namespace maxbatch::cli {
namespace {

/// An option whose text `read` turns into a value, with the complaint of our own readers instead of CLI11's.
CLI::Option* add_value(CLI::App& command, std::string const& name, std::string const& placeholder,
                       std::function<void(std::string const&)> const& read, std::string const& help) {
  return command.add_option_function<std::string>(name, read, help)->type_name(placeholder);
}

CLI::Option* add_count(CLI::App& command, std::string const& name, std::optional<std::int64_t>& value,
                       std::int64_t at_least, std::string const& help) {
  return add_value(
      command, name, "N",
      [&value, name, at_least](std::string const& text) { value = read_count(name, text, at_least); }, help);
}

CLI::Option* add_count(CLI::App& command, std::string const& name, std::int64_t& value, std::int64_t at_least,
                       std::string const& help) {
  return add_value(
      command, name, "N",
      [&value, name, at_least](std::string const& text) { value = read_count(name, text, at_least); }, help);
}

void add_recipe_options(CLI::App& command, SearchArguments& arguments) {
  auto& recipe = arguments.recipe;
  auto const group = std::string(kRecipeGroup);
  add_value(
      command, "--optimizer", "NAME",
      [&](std::string const& text) { recipe.optimizer = read_optimizer("--optimizer", text); },
      "adamw-fused, the default, or sgd-fused: one kernel a step, no temporaries; adamw-foreach or sgd-foreach: all "
      "parameters at once, with temporaries as large as they are; adamw or sgd: torch::optim::AdamW and SGD, a "
      "parameter at a time. SGD has momentum")
      ->group(group);
  add_value(
      command, "--precision", "NAME",
      [&](std::string const& text) { recipe.precision = read_precision("--precision", text); },
      "fp32; bf16 or fp16 by autocast, fp16 with a gradient scaler; tf32 on a cuda device; default fp32")
      ->group(group);
  add_value(
      command, "--accumulation", "N",
      [&](std::string const& text) {
        recipe.accumulation = read_count("--accumulation", text, 1);
        arguments.accumulation_was_given = true;
      },
      "micro-batches per optimizer step, each of the size that is searched; default 1, with --effective-batch 2")
      ->group(group);
  add_value(
      command, "--image-size", "HxW",
      [&](std::string const& text) { recipe.image_size = read_image_size("--image-size", text); },
      "pixels, such as 64x64; default the model's own")
      ->group(group);
  add_count(command, "--sequence-length", recipe.sequence_length, 1,
            "tokens in each sample of a language model; default the model's own")
      ->group(group);
  command
      .add_flag("--checkpoint", recipe.checkpoint,
                "blocks keep their inputs only and run again in the backward pass: less memory, more time")
      ->group(group);
  command
      .add_flag("--channels-last", recipe.channels_last,
                "convolutions and images laid out as height, width, channels: faster for many convolutional models")
      ->group(group);
  add_value(
      command, "--order", "MODES",
      [&](std::string const& text) { arguments.finder.order = read_order("--order", text); },
      "what the steps of a trial do in turn, such as train,evaluate,train; default train")
      ->group(group);
}

void add_size_options(CLI::App& command, SearchArguments& arguments) {
  auto& search = arguments.finder.search;
  auto const group = std::string("Which batch sizes are tried (bounds are included)");
  add_count(command, "--min", search.minimum, 1, "smallest; default 1")->group(group);
  add_count(command, "--max", search.maximum, 1, "largest; default none")->group(group);
  add_count(command, "--multiple-of", search.multiple_of, 1, "only multiples of N; default 1")->group(group);
  add_count(command, "--effective-batch", arguments.effective_batch, 1,
            "only divisors of N, and say how many micro-batches make it whole")
      ->group(group);
  add_count(command, "--enough", search.enough, 1, "stop at the first size of at least N that fits")->group(group);
  add_count(command, "--probe-above", search.probe_above, 0,
            "also try N sizes above the boundary, since memory need not grow with the batch; default 2 where the "
            "allocator was under pressure, else 0")
      ->group(group);
}

void add_effort_options(CLI::App& command, SearchArguments& arguments) {
  auto& finder = arguments.finder;
  auto const group = std::string("What counts as fitting, and when to stop");
  add_value(
      command, "--headroom", "BYTES",
      [&](std::string const& text) { finder.headroom = read_bytes("--headroom", text, Bytes{0}); },
      "keep this much of the budget free: the answer ran without it; default 0")
      ->group(group);
  add_count(command, "--steps", finder.steps, 1,
            "complete steps that a size must run; default 3 (optimizer state is resident from the second on)")
      ->group(group);
  add_value(
      command, "--max-seconds", "S",
      [&](std::string const& text) {
        finder.search.max_duration = std::chrono::duration<double>(read_seconds("--max-seconds", text));
      },
      "no trial starts later than this; the best so far is printed, exit code 4")
      ->group(group);
  command
      .add_flag("--rehearse,!--no-rehearse", arguments.rehearse,
                "on a card of this machine: search on its dry twin first, so that the card has only the answer and the "
                "next size to run; default yes")
      ->group(group);
  command
      .add_flag(
          "--replay,!--no-replay", finder.replay_scouts,
          "of a program, or on a card of this machine without a rehearsal: record two small sizes and begin where "
          "their replay puts the boundary; default yes")
      ->group(group);
  auto* const fresh = command.add_flag("--fresh-processes", arguments.fresh_processes,
                                       "each trial in a process of its own, which knows nothing of those before; "
                                       "default: find asks so again where cuDNN "
                                       "had to take smaller plans, which a process remembers");
  fresh->group(group);
  command.add_flag("--no-fresh-processes", arguments.never_fresh, "not even then")->group(group)->excludes(fresh);
  add_value(
      command, "--trial-timeout", "S",
      [&](std::string const& text) {
        arguments.trial_timeout = std::chrono::duration<double>(read_seconds("--trial-timeout", text));
      },
      "a trial that takes longer is ended with its process, and bounds the answer; trials then run in child processes")
      ->group(group);
  add_count(command, "--max-trials", finder.search.max_trials, 1,
            "at most N trials; the best so far is printed, exit code 4")
      ->group(group);
}

}  // namespace

void add_budget_option(CLI::App& command, std::optional<Bytes>& budget) {
  command
      .add_option_function<std::string>(
          "--budget", [&budget](std::string const& text) { budget = read_bytes("--budget", text, Bytes{1}); },
          "memory that the training may take; default what the device has (cpu: half of the machine's memory)")
      ->type_name("BYTES")
      ->group("Where");
}

void add_format_option(CLI::App& command, OutputFormat& format) {
  add_value(
      command, "--format", "NAME",
      [&](std::string const& text) {
        format = read_name("--format", text, {"table", "json"}) == "json" ? OutputFormat::json : OutputFormat::table;
      },
      "table or json, on standard output; default table")
      ->group("Output");
}

void add_search_options(CLI::App& command, SearchArguments& arguments) {
  add_value(
      command, "--device", "NAME", [&](std::string const& text) { arguments.device = text; },
      "cpu: real kernels, LibTorch's CPU allocator under a budget; cuda:N: a card of this machine; a card's name, such "
      "as "
      "rtx-4090 (maxbatch cards lists them): one that is not here, run dry in a child process; default cpu")
      ->group("Where");
  add_recipe_options(command, arguments);
  add_size_options(command, arguments);
  add_effort_options(command, arguments);
  add_format_option(command, arguments.format);
}

void check_together(SearchArguments const& arguments) {
  check_device(arguments.device);
  auto const& finder = arguments.finder;
  auto const& search = finder.search;
  if (search.maximum && *search.maximum < search.minimum) {
    throw UsageError("--min " + std::to_string(search.minimum) + " is above --max " + std::to_string(*search.maximum) +
                     ": no batch size is left");
  }
  if (std::find(finder.order.begin(), finder.order.end(), StepMode::train) != finder.order.end() && finder.steps < 2) {
    throw UsageError("--steps " + std::to_string(finder.steps) +
                     " would miss the optimizer's state, which the first step makes: give 2 or more");
  }
}

Recipe recipe_for(SearchArguments const& arguments) {
  auto recipe = arguments.recipe;
  if (arguments.effective_batch && !arguments.accumulation_was_given) { recipe.accumulation = 2; }
  return recipe;
}

ReportSubject subject_for(ModelFactory const& model, SearchArguments const& arguments) {
  ReportSubject subject;
  subject.model = model.name;
  subject.card = read_device(arguments.device).card;
  subject.recipe = recipe_for(arguments);
  if (!subject.recipe.image_size) { subject.recipe.image_size = model.image_size; }
  if (!subject.recipe.sequence_length) { subject.recipe.sequence_length = model.sequence_length; }
  subject.effective_batch = arguments.effective_batch;
  return subject;
}

}  // namespace maxbatch::cli
