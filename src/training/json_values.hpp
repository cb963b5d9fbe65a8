#pragma once

#include <maxbatch/device/memory_device.hpp>
#include <maxbatch/search/trial_record.hpp>
#include <maxbatch/training/recipe.hpp>

#include <nlohmann/json.hpp>

/// Trials, devices and recipes as JSON, for reports and between processes. Keys as README.md lists them; null where nothing is known.
/// The readers throw nlohmann::json::exception, or InvalidArgument for a name that does not exist.
namespace maxbatch::detail {

using Json = nlohmann::ordered_json;  // a reader finds the answer above the trials

template <typename Value>
Json or_null(std::optional<Value> const& value) {
  return value ? Json(*value) : Json(nullptr);
}
Json or_null(std::optional<Bytes> const& amount);

template <typename Value>
std::optional<Value> optional_from(Json const& json) {
  return json.is_null() ? std::nullopt : std::optional(json.get<Value>());
}
std::optional<Bytes> optional_bytes_from(Json const& json);

void add_peaks(Json& object, MemoryPeaks const& peaks);
void add_failed_request(Json& object, std::optional<FailedRequest> const& failed);
void add_outcome(Json& object, TrialOutcome const& outcome);
TrialOutcome outcome_from(Json const& object);

/// Everything of a device but its headroom.
Json device_to_json(DeviceDescription const& device);
DeviceDescription device_from(Json const& json);

Json recipe_to_json(Recipe const& recipe);
Recipe recipe_from(Json const& json);

/// Texts of exceptions may hold anything; a broken byte must not cost the user the answer.
std::string dump(Json const& json, int indent);

}  // namespace maxbatch::detail
