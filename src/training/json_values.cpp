#include "json_values.hpp"

#include <maxbatch/search/errors.hpp>

#include <array>
#include <string>

namespace maxbatch::detail {
namespace {

constexpr std::array<Verdict, 10> kVerdicts = {Verdict::fits,
                                               Verdict::fits_under_pressure,
                                               Verdict::out_of_memory,
                                               Verdict::out_of_host_memory,
                                               Verdict::likely_out_of_memory,
                                               Verdict::swallowed_out_of_memory,
                                               Verdict::size_limit,
                                               Verdict::device_lost,
                                               Verdict::timed_out,
                                               Verdict::failed};
constexpr std::array<DeviceEvidence, 3> kEvidence = {DeviceEvidence::measured, DeviceEvidence::dry,
                                                     DeviceEvidence::cpu};

/// The value whose name `json` is.
template <typename Values>
auto named(Values const& values, Json const& json, char const* what) {
  auto const name = json.get<std::string>();
  for (auto const value : values) {
    if (to_string(value) == name) { return value; }
  }
  throw InvalidArgument(std::string("no ") + what + " is called '" + name + "'");
}

/// All zero stands for "not measured".
Json bytes_of(MemoryPeaks const& peaks, Bytes MemoryPeaks::*which) {
  return peaks == MemoryPeaks{} ? Json(nullptr) : Json((peaks.*which).count);
}

Bytes bytes_from(Json const& json) { return optional_bytes_from(json).value_or(Bytes{0}); }

MemoryPeaks peaks_from(Json const& object) {
  return {bytes_from(object.at("peak_requested_bytes")), bytes_from(object.at("peak_allocated_bytes")),
          bytes_from(object.at("peak_active_bytes")), bytes_from(object.at("peak_reserved_bytes"))};
}

std::optional<FailedRequest> failed_request_from(Json const& object) {
  if (object.at("failed_request_bytes").is_null()) { return std::nullopt; }
  FailedRequest failed;
  failed.phase = named(kAllPhases, object.at("failed_phase"), "phase");
  failed.requested = bytes_from(object.at("failed_request_bytes"));
  failed.segment = optional_bytes_from(object.at("failed_segment_bytes"));
  failed.short_by_at_least = optional_bytes_from(object.at("short_by_at_least_bytes"));
  return failed;
}

}  // namespace

Json or_null(std::optional<Bytes> const& amount) { return amount ? Json(amount->count) : Json(nullptr); }

std::optional<Bytes> optional_bytes_from(Json const& json) {
  return json.is_null() ? std::nullopt : std::optional(Bytes{json.get<std::int64_t>()});
}

void add_peaks(Json& object, MemoryPeaks const& peaks) {
  object["peak_reserved_bytes"] = bytes_of(peaks, &MemoryPeaks::reserved);
  object["peak_active_bytes"] = bytes_of(peaks, &MemoryPeaks::active);
  object["peak_allocated_bytes"] = bytes_of(peaks, &MemoryPeaks::allocated);
  object["peak_requested_bytes"] = bytes_of(peaks, &MemoryPeaks::requested);
}

void add_failed_request(Json& object, std::optional<FailedRequest> const& failed) {
  object["failed_request_bytes"] = failed ? Json(failed->requested.count) : Json(nullptr);
  object["failed_segment_bytes"] = failed ? or_null(failed->segment) : Json(nullptr);
  object["short_by_at_least_bytes"] = failed ? or_null(failed->short_by_at_least) : Json(nullptr);
  object["failed_phase"] = failed ? Json(to_string(failed->phase)) : Json(nullptr);
}

void add_outcome(Json& object, TrialOutcome const& outcome) {
  object["outcome"] = to_string(outcome.verdict);
  object["reason"] = outcome.reason;
  object["steps"] = outcome.steps;
  add_peaks(object, outcome.peaks);
  add_failed_request(object, outcome.failed_request);
  object["allocation_retries"] = outcome.allocation_retries;
  object["reduced_workspaces"] = outcome.reduced_workspaces;
  object["phases"] = Json::object();
  for (auto const& [phase, peaks] : outcome.phases) {
    add_peaks(object["phases"][std::string(to_string(phase))], peaks);
  }
}

TrialOutcome outcome_from(Json const& object) {
  TrialOutcome outcome;
  outcome.verdict = named(kVerdicts, object.at("outcome"), "outcome");
  outcome.reason = object.at("reason").get<std::string>();
  outcome.steps = object.at("steps").get<std::int64_t>();
  outcome.peaks = peaks_from(object);
  outcome.failed_request = failed_request_from(object);
  outcome.allocation_retries = object.at("allocation_retries").get<std::int64_t>();
  outcome.reduced_workspaces = object.at("reduced_workspaces").get<std::int64_t>();
  for (auto const& [name, peaks] : object.at("phases").items()) {
    outcome.phases.push_back({named(kAllPhases, Json(name), "phase"), peaks_from(peaks)});
  }
  return outcome;
}

Json device_to_json(DeviceDescription const& device) {
  Json json;
  json["device"] = device.torch_device.str();
  json["device_name"] = device.name;
  json["evidence"] = to_string(device.evidence);
  json["device_bytes"] = device.total.count;
  json["budget_bytes"] = or_null(device.budget);
  json["usable_bytes"] = or_null(device.usable);
  json["outside_allocator_bytes"] = or_null(device.outside_allocator);
  json["allocator_settings"] = device.allocator_settings;
  return json;
}

DeviceDescription device_from(Json const& json) {
  DeviceDescription device;
  device.torch_device = c10::Device(json.at("device").get<std::string>());
  device.name = json.at("device_name").get<std::string>();
  device.evidence = named(kEvidence, json.at("evidence"), "evidence");
  device.total = Bytes{json.at("device_bytes").get<std::int64_t>()};
  device.budget = optional_bytes_from(json.at("budget_bytes"));
  device.usable = optional_bytes_from(json.at("usable_bytes"));
  device.outside_allocator = optional_bytes_from(json.at("outside_allocator_bytes"));
  device.allocator_settings = json.at("allocator_settings").get<std::string>();
  return device;
}

Json recipe_to_json(Recipe const& recipe) {
  Json json;
  json["optimizer"] = to_string(recipe.optimizer);
  json["precision"] = to_string(recipe.precision);
  json["accumulation"] = recipe.accumulation;
  json["image_size"] = recipe.image_size ? Json{recipe.image_size->height, recipe.image_size->width} : Json(nullptr);
  json["sequence_length"] = or_null(recipe.sequence_length);
  json["checkpoint"] = recipe.checkpoint;
  json["channels_last"] = recipe.channels_last;
  return json;
}

Recipe recipe_from(Json const& json) {
  Recipe recipe;
  auto const optimizer = json.at("optimizer").get<std::string>();
  auto const precision = json.at("precision").get<std::string>();
  if (auto const known = parse_optimizer(optimizer)) {
    recipe.optimizer = *known;
  } else {
    throw InvalidArgument("no optimizer is called '" + optimizer + "'");
  }
  if (auto const known = parse_precision(precision)) {
    recipe.precision = *known;
  } else {
    throw InvalidArgument("no precision is called '" + precision + "'");
  }
  recipe.accumulation = json.at("accumulation").get<std::int64_t>();
  if (auto const& size = json.at("image_size"); !size.is_null()) {
    recipe.image_size = ImageSize{size.at(0).get<std::int64_t>(), size.at(1).get<std::int64_t>()};
  }
  recipe.sequence_length = optional_from<std::int64_t>(json.at("sequence_length"));
  recipe.checkpoint = json.at("checkpoint").get<bool>();
  recipe.channels_last = json.at("channels_last").get<bool>();
  return recipe;
}

std::string dump(Json const& json, int indent) { return json.dump(indent, ' ', false, Json::error_handler_t::replace); }

}  // namespace maxbatch::detail
