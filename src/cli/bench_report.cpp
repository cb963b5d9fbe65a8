#include "bench_report.hpp"

#include "report/recipe_text.hpp"
#include "report/speed_values.hpp"
#include "report/text_table.hpp"
#include "training/json_values.hpp"
#include <maxbatch/report/version.hpp>

#include <array>
#include <cstdio>

namespace maxbatch::cli {
namespace {

using detail::Json;
using report::three_digits;

constexpr std::size_t kWidth = 100;

std::string milliseconds(StepTimes const& times) {
  return three_digits(1e3 * times.median()) + " ms (" + three_digits(1e3 * times.fastest()) + " to " +
         three_digits(1e3 * times.slowest()) + ")";
}

std::string mib(TrialOutcome const& outcome) {
  if (!is_fit(outcome.verdict)) { return "-"; }
  std::array<char, 64> text{};
  std::snprintf(text.data(), text.size(), "%.1f", static_cast<double>(outcome.peaks.reserved.count) / (1 << 20));
  return text.data();
}

/// Speed at the median, and the rounds' range around it.
void add_speed(std::vector<std::string>& row, TrialOutcome const& outcome, std::optional<StepTimes> const& times,
               std::int64_t samples) {
  if (!times) {
    row.push_back(std::string(to_string(outcome.verdict)));
    row.emplace_back("-");
  } else {
    auto const rate = [&](double seconds) { return three_digits(static_cast<double>(samples) / seconds); };
    row.push_back(rate(times->median()));
    row.push_back(rate(times->slowest()) + "-" + rate(times->fastest()));
  }
  row.push_back(mib(outcome));
}

}  // namespace

std::string bench_text(BenchReport const& report) {
  auto const& speed = report.speed;
  // A language model's samples are sequences.
  std::string const unit = report.subject.recipe.image_size ? "images/s" : "samples/s";
  auto text = report::wrap(
      report.subject.model + ": " + report::recipe_text(report.subject.recipe) + "; on " + speed.device.name, kWidth);
  text += report::wrap("Median of " + std::to_string(report.options.rounds) + " rounds of about " +
                           three_digits(report.options.round_seconds) + " s, one wait for the device in each, after " +
                           std::to_string(report.options.warm_up) +
                           " steps that are not timed; slowest to fastest round beside it.",
                       kWidth);
  text += '\n';
  report::TextTable table(
      {{"batch"}, {"training " + unit}, {"range"}, {"peak MiB"}, {"inference " + unit}, {"range"}, {"peak MiB"}});
  for (auto const& size : speed.sizes) {
    std::vector<std::string> row = {std::to_string(size.batch_size)};
    add_speed(row, size.training, size.training_times, size.samples_per_training_step);
    add_speed(row, size.inference, size.inference_times, size.batch_size);
    table.add_row(std::move(row));
  }
  text += table.to_string() + '\n';
  auto const knee_text = [](std::optional<std::int64_t> knee) {
    return knee ? std::to_string(*knee) : std::string("-");
  };
  text += report::wrap("smallest batch within 5 % of the best speed here: " + knee_text(speed.training_knee()) +
                           " in training, " + knee_text(speed.inference_knee()) + " in inference" +
                           (report.boundary ? "; the largest that fits: " + std::to_string(*report.boundary) : ""),
                       kWidth);
  if (speed.latency) {
    text += "latency of one " + std::string(report.subject.recipe.image_size ? "image" : "sample") + ": " +
            milliseconds(*speed.latency) + '\n';
  }
  return text;
}

std::string bench_json(BenchReport const& report) {
  auto const& speed = report.speed;
  Json json;
  json["model"] = report.subject.model;
  json["device"] = speed.device.torch_device.str();
  json["device_name"] = speed.device.name;
  json["evidence"] = to_string(speed.device.evidence);
  json["recipe"] = detail::recipe_to_json(report.subject.recipe);
  json["warm_up"] = report.options.warm_up;
  json["round_seconds"] = report.options.round_seconds;
  json["largest_batch_size"] = detail::or_null(report.boundary);
  json.update(report::speed_to_json(speed));
  json["version"] = version();
  return detail::dump(json, 2) + '\n';
}

}  // namespace maxbatch::cli
