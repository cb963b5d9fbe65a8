#include "speed_values.hpp"

#include <array>
#include <cstdio>

namespace maxbatch::report {
namespace {

using detail::Json;

Json json_of(TrialOutcome const& outcome, std::optional<StepTimes> const& times, std::int64_t samples) {
  Json json;
  json["outcome"] = to_string(outcome.verdict);
  json["samples_per_second"] = times ? Json(static_cast<double>(samples) / times->median()) : Json(nullptr);
  json["median_seconds"] = times ? Json(times->median()) : Json(nullptr);
  json["fastest_seconds"] = times ? Json(times->fastest()) : Json(nullptr);
  json["slowest_seconds"] = times ? Json(times->slowest()) : Json(nullptr);
  json["rounds"] = times ? Json(times->seconds.size()) : Json(nullptr);
  json["steps_per_round"] = times ? Json(times->steps_per_round) : Json(nullptr);
  detail::add_peaks(json, outcome.peaks);
  return json;
}

}  // namespace

std::string three_digits(double value) {
  std::array<char, 64> text{};
  auto const decimals = value >= 100 ? 0 : value >= 10 ? 1 : value >= 1 ? 2 : 3;
  std::snprintf(text.data(), text.size(), "%.*f", decimals, value);
  return text.data();
}

Json speed_to_json(SpeedResult const& speed) {
  Json json;
  json["training_knee"] = detail::or_null(speed.training_knee());
  json["inference_knee"] = detail::or_null(speed.inference_knee());
  json["latency"] = nullptr;
  if (speed.latency) {
    json["latency"] = {{"median_seconds", speed.latency->median()},
                       {"fastest_seconds", speed.latency->fastest()},
                       {"slowest_seconds", speed.latency->slowest()},
                       {"rounds", speed.latency->seconds.size()}};
  }
  json["sizes"] = Json::array();
  for (auto const& size : speed.sizes) {
    Json entry;
    entry["batch_size"] = size.batch_size;
    entry["training"] = json_of(size.training, size.training_times, size.samples_per_training_step);
    entry["inference"] = json_of(size.inference, size.inference_times, size.batch_size);
    json["sizes"].push_back(std::move(entry));
  }
  return json;
}

}  // namespace maxbatch::report
