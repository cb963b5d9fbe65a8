#include "argument_values.hpp"
#include "command.hpp"
#include "device_selection.hpp"
#include "dry_restart.hpp"
#include "report/recipe_text.hpp"
#include "report/text_table.hpp"
#include "run_search.hpp"
#include "stop_signal.hpp"
#include "training/finder_checks.hpp"
#include "usage_error.hpp"
#include <maxbatch/report/result_json.hpp>
#include <maxbatch/training/max_batch_finder.hpp>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include <array>
#include <cstdio>
#include <memory>
#include <utility>

namespace maxbatch::cli {
namespace {

using Json = nlohmann::ordered_json;

struct FindImageArguments {
  std::string model;
  std::optional<Bytes> budget;
  InputSizeOptions image;
  SearchArguments search;
};

std::string text_of(ImageSize size) { return std::to_string(size.height) + "x" + std::to_string(size.width); }

/// The image whose shorter side was searched.
ImageSize image_of(std::int64_t shorter, InputSizeOptions const& options) {
  return {shorter, detail::longer_side_of(shorter, options)};
}

std::string mib(Bytes amount) {
  std::array<char, 64> text{};
  std::snprintf(text.data(), text.size(), "%.1f", static_cast<double>(amount.count) / (1 << 20));
  return text.data();
}

std::string text_of(InputSizeResult const& result, FindImageArguments const& arguments) {
  constexpr std::size_t kWidth = 100;
  auto const& search = result.finder.search;
  auto const unit = result.finder.device.budget ? to_string(*result.finder.device.budget) : std::string("no budget");
  auto recipe = arguments.search.recipe;
  recipe.image_size.reset();  // it is what is asked for
  auto text = report::wrap(arguments.model + ": images at batch " + std::to_string(result.batch_size) + ", " +
                               report::recipe_text(recipe) + "; on " + result.finder.device.name + ", " + unit,
                           kWidth);
  text += report::wrap(result.summary(), kWidth) + '\n';
  text += "largest image ....... " + (result.largest ? text_of(*result.largest) : std::string("none")) + '\n';
  text += "proof ............... " + std::string(to_string(search.proof)) + "\n\n";
  report::TextTable table({{"trial"},
                           {"image"},
                           {"purpose", report::TextTable::Align::left},
                           {"outcome", report::TextTable::Align::left},
                           {"peak MiB"},
                           {"seconds"}});
  for (std::size_t i = 0; i < search.trials.size(); ++i) {
    auto const& trial = search.trials[i];
    std::array<char, 32> seconds{};
    std::snprintf(seconds.data(), seconds.size(), "%.2f", trial.seconds);
    table.add_row({std::to_string(i + 1), text_of(image_of(trial.batch_size, arguments.image)),
                   std::string(to_string(trial.purpose)), std::string(to_string(trial.outcome.verdict)),
                   mib(trial.outcome.peaks.reserved), seconds.data()});
  }
  return text + table.to_string();
}

/// The keys of `find`, with images in place of batches.
std::string json_of(InputSizeResult const& result, ReportSubject const& subject, InputSizeOptions const& options) {
  auto const image = [](std::optional<ImageSize> size) {
    return size ? Json({size->height, size->width}) : Json(nullptr);
  };
  auto json = Json::parse(to_json(result.finder, subject));
  for (auto const* const key :
       {"largest_batch_size", "next_batch_size", "largest_clean_batch_size", "accumulation_plan", "effective_batch",
        "replayed_batch_size", "rehearsed_batch_size", "rehearsal_seconds"}) {
    json.erase(key);
  }
  json["recipe"].erase("image_size");
  json["batch_size"] = result.batch_size;
  json["largest_image"] = image(result.largest);
  json["next_image"] = image(result.next);
  for (auto& trial : json["trials"]) {
    trial["image"] = image(image_of(trial["batch_size"].get<std::int64_t>(), options));
    trial.erase("batch_size");
  }
  return json.dump(2) + '\n';
}

ExitCode find_image(FindImageArguments const& arguments, Surroundings const& surroundings) {
  auto const& model = surroundings.models.at(arguments.model);
  check_together(arguments.search);
  if (!model.image_size) {
    throw UsageError("--model '" + model.name + "' takes no images; `maxbatch models` says which do");
  }
  auto const choice = read_device(arguments.search.device);
  if (choice.kind == DeviceChoice::Kind::dry_card) { restart_on_dry_card(choice.card); }

  StopSignal const stop_signal;
  ProgressReporter progress(surroundings.status, "shorter side");
  auto options = arguments.search.finder;
  options.search.minimum = 1;  // of the shorter side: InputSizeOptions says it
  MaxBatchFinder finder(make_device(arguments.search.device, arguments.budget), options);
  finder.observe({&progress, [](SearchObserver*) {}});
  auto const result = finder.find_input_size(model, recipe_for(arguments.search), arguments.image);
  for (auto const& warning : result.finder.warnings) { surroundings.log.warn(warning); }
  surroundings.out << (arguments.search.format == OutputFormat::json
                           ? json_of(result, subject_for(model, arguments.search), arguments.image)
                           : text_of(result, arguments));
  return exit_code_of(result.finder);
}

}  // namespace

void add_find_image_command(CLI::App& app, Command& chosen) {
  auto* const command = app.add_subcommand("find-image", "The largest image of one model at a fixed batch size");
  auto const arguments = std::make_shared<FindImageArguments>();
  command->add_option("--model", arguments->model, "a name that `maxbatch models` lists")
      ->required()
      ->type_name("NAME")
      ->group("Where");
  add_budget_option(*command, arguments->budget);
  auto const group = std::string("Which images are tried");
  auto const count = [&](char const* name, std::int64_t& value, char const* help) {
    command
        ->add_option_function<std::string>(
            name, [arguments, name, &value](std::string const& text) { value = read_count(name, text, 1); }, help)
        ->type_name("N")
        ->group(group);
  };
  count("--batch", arguments->image.batch_size, "images in a batch; default 1");
  count("--stride", arguments->image.stride, "both sides are multiples of it; default 32");
  auto const side = [&](char const* name, std::optional<std::int64_t>& value, char const* help) {
    command
        ->add_option_function<std::string>(
            name, [arguments, name, &value](std::string const& text) { value = read_count(name, text, 1); }, help)
        ->type_name("N")
        ->group(group);
  };
  side("--smallest-side", arguments->image.minimum, "of the shorter side, in pixels; default one stride");
  side("--largest-side", arguments->image.maximum, "of the shorter side, in pixels; default none");
  command
      ->add_option_function<std::string>(
          "--aspect",
          [arguments](std::string const& text) {
            arguments->image.aspect_ratio = read_seconds("--aspect", text);
            if (arguments->image.aspect_ratio < 1) {
              throw UsageError("--aspect is " + text + "; it is the longer side over the shorter one, 1 or more");
            }
          },
          "longer side over shorter side, such as 1.667; both orientations are run then; default 1")
      ->type_name("RATIO")
      ->group(group);
  add_search_options(*command, arguments->search);
  command->footer(
      "The batch is fixed, and the shorter side is searched as `find` searches the batch: the answer ran, and the next "
      "size failed twice.\nOptions about batch sizes mean nothing here.\n\n"
      "Examples:\n"
      "  maxbatch find-image --model swin_l --batch 8 --device rtx-2080-ti\n"
      "  maxbatch find-image --model small_cnn --batch 4 --budget 64MiB --largest-side 512\n"
      "  maxbatch find-image --model swin_t --batch 16 --device cuda:0 --precision bf16 --format json\n\n"
      "Exit codes: as those of find.");
  command->callback([arguments, &chosen] {
    chosen = [arguments](Surroundings const& surroundings) { return find_image(*arguments, surroundings); };
  });
}

}  // namespace maxbatch::cli
