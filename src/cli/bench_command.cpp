#include "argument_values.hpp"
#include "bench_report.hpp"
#include "command.hpp"
#include "device_selection.hpp"
#include "run_search.hpp"
#include "script_arguments.hpp"
#include "usage_error.hpp"

#include <CLI/CLI.hpp>

#include <memory>

namespace maxbatch::cli {
namespace {

struct BenchArguments {
  std::string model;
  ScriptArguments script;
  std::optional<Bytes> budget;
  bool at_boundary = false;
  SpeedOptions speed;
  SearchArguments search;
};

void check(BenchArguments const& arguments) {
  auto const choice = read_device(arguments.search.device);
  if (choice.kind == DeviceChoice::Kind::dry_card) {
    throw UsageError("--device '" + arguments.search.device +
                     "' is a dry card, where nothing takes time: measure speed on cpu or cuda:N");
  }
  if (arguments.at_boundary && !arguments.speed.batch_sizes.empty()) {
    throw UsageError("--batches and --boundary contradict each other: sizes of yours, or the largest that fits");
  }
  check_together(arguments.search);
}

ExitCode bench(BenchArguments const& arguments, Surroundings const& surroundings) {
  auto const model = chosen_model(arguments.model, arguments.script, surroundings.models);
  check(arguments);
  BenchReport report;
  report.subject = subject_for(model, arguments.search);
  report.options = arguments.speed;
  auto code = ExitCode::answered;
  if (arguments.at_boundary) {
    auto const found = run_search(model, arguments.search, arguments.budget, "", surroundings);
    code = exit_code_of(found);
    if (!found.batch_size()) {
      surroundings.log.warn("nothing fits, so there is nothing to measure");
      return code;
    }
    report.boundary = found.batch_size();
    report.options.largest = found.batch_size();
  }
  auto const device = make_device(arguments.search.device, arguments.budget);
  report.speed = measure_speed(*device, model, recipe_for(arguments.search), report.options, [&](auto const& size) {
    surroundings.status.show("batch " + std::to_string(size.batch_size) + " measured");
  });
  surroundings.status.clear();
  surroundings.out << (arguments.search.format == OutputFormat::json ? bench_json(report) : bench_text(report));
  return code;
}

}  // namespace

void add_bench_command(CLI::App& app, Command& chosen) {
  auto* const command =
      app.add_subcommand("bench", "Images a second in training and inference, and the latency of one image");
  auto const arguments = std::make_shared<BenchArguments>();
  command->add_option("--model", arguments->model, "a name that `maxbatch models` lists")
      ->type_name("NAME")
      ->group("Where");
  add_script_options(*command, arguments->script);
  add_budget_option(*command, arguments->budget);
  auto const group = std::string("What is measured");
  command
      ->add_option_function<std::string>(
          "--batches",
          [arguments](std::string const& text) {
            for (auto const& part : split_at_commas(text)) {
              arguments->speed.batch_sizes.push_back(read_count("--batches", part, 1));
            }
          },
          "batch sizes, with commas between them; default 1, 2, 4, … until memory ends or speed grows no more")
      ->type_name("SIZES")
      ->group(group);
  command
      ->add_flag("--boundary", arguments->at_boundary,
                 "up to the largest batch that fits, which is searched first, as find does with the options below")
      ->group(group);
  command
      ->add_option_function<std::string>(
          "--rounds",
          [arguments](std::string const& text) { arguments->speed.rounds = read_count("--rounds", text, 1); },
          "rounds, of which the median is printed; default 5")
      ->type_name("N")
      ->group(group);
  command
      ->add_option_function<std::string>(
          "--round-seconds",
          [arguments](std::string const& text) {
            arguments->speed.round_seconds = read_seconds("--round-seconds", text);
          },
          "about how long a round takes, of as many steps as that makes; default 0.5")
      ->type_name("S")
      ->group(group);
  command
      ->add_option_function<std::string>(
          "--warm-up",
          [arguments](std::string const& text) { arguments->speed.warm_up = read_count("--warm-up", text, 1); },
          "steps before the first round; default 3")
      ->type_name("N")
      ->group(group);
  add_search_options(*command, arguments->search);
  command->footer(
      "A step draws its inputs on the device, and that counts; inference is the model and its loss, without "
      "gradients.\n"
      "Not for cards that are not here: nothing takes time on them.\n\n"
      "Examples:\n"
      "  maxbatch bench --model swin_t --device cuda:0 --precision bf16\n"
      "  maxbatch bench --model vit_b_16 --device cuda:0 --batches 1,8,64 --optimizer adamw-fused\n"
      "  maxbatch bench --model swin_l --device cuda:0 --budget 10700MiB --boundary --format json\n"
      "  maxbatch bench --model small_cnn --batches 1,16\n\n"
      "Exit codes: as those of find.");
  command->callback([arguments, &chosen] {
    chosen = [arguments](Surroundings const& surroundings) { return bench(*arguments, surroundings); };
  });
}

}  // namespace maxbatch::cli
