#include <maxbatch/report/result_json.hpp>
#include <maxbatch/report/version.hpp>

#include <nlohmann/json.hpp>

namespace maxbatch {
namespace {

using Json = nlohmann::ordered_json;  // a reader finds the answer above the trials

template <typename Value>
Json or_null(std::optional<Value> const& value) {
  return value ? Json(*value) : Json(nullptr);
}
Json or_null(std::optional<Bytes> const& amount) { return amount ? Json(amount->count) : Json(nullptr); }

/// All zero stands for "not measured".
Json bytes_of(MemoryPeaks const& peaks, Bytes MemoryPeaks::*which) {
  return peaks == MemoryPeaks{} ? Json(nullptr) : Json((peaks.*which).count);
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

Json json_of(TrialRecord const& record) {
  auto const& outcome = record.outcome;
  Json trial;
  trial["batch_size"] = record.batch_size;
  trial["purpose"] = to_string(record.purpose);
  trial["outcome"] = to_string(outcome.verdict);
  trial["reason"] = outcome.reason;
  trial["steps"] = outcome.steps;
  trial["seconds"] = record.seconds;
  add_peaks(trial, outcome.peaks);
  add_failed_request(trial, outcome.failed_request);
  trial["allocation_retries"] = outcome.allocation_retries;
  trial["reduced_workspaces"] = outcome.reduced_workspaces;
  trial["phases"] = Json::object();
  for (auto const& [phase, peaks] : outcome.phases) {
    add_peaks(trial["phases"][std::string(to_string(phase))], peaks);
  }
  return trial;
}

Json json_of(Recipe const& recipe) {
  Json json;
  json["optimizer"] = to_string(recipe.optimizer);
  json["precision"] = to_string(recipe.precision);
  json["accumulation"] = recipe.accumulation;
  json["image_size"] = recipe.image_size ? Json{recipe.image_size->height, recipe.image_size->width} : Json(nullptr);
  return json;
}

/// What was asked. The finder's budget has the headroom taken off; the report says the whole, as the user gave it.
Json json_of_question(FinderResult const& result, ReportSubject const& subject) {
  Json json;
  json["model"] = subject.model;
  json["device"] = result.device.torch_device.str();
  json["device_name"] = result.device.name;
  json["evidence"] = to_string(result.device.evidence);
  json["device_bytes"] = result.device.total.count;
  json["budget_bytes"] =
      result.device.budget ? Json((*result.device.budget + result.headroom).count) : Json(result.device.total.count);
  json["headroom_bytes"] = result.headroom.count;
  json["recipe"] = json_of(subject.recipe);
  json["effective_batch"] = or_null(subject.effective_batch);
  return json;
}

Json json_of(FinderResult const& result, ReportSubject const& subject) {
  auto const& search = result.search;
  auto json = json_of_question(result, subject);
  json["steps"] = result.steps;
  json["largest_batch_size"] = or_null(search.batch_size);
  json["next_batch_size"] = or_null(search.next_batch_size);
  json["proof"] = to_string(search.proof);
  json["reason"] = search.reason;
  auto const* const failure = search.next_failure();
  add_failed_request(json, failure != nullptr ? failure->outcome.failed_request : std::nullopt);
  auto const* const answer = search.answer();
  add_peaks(json, answer != nullptr ? answer->outcome.peaks : MemoryPeaks{});
  json["largest_clean_batch_size"] = or_null(search.largest_clean_batch_size);
  json["gaps"] = search.gaps;
  json["spurious_failures"] = search.spurious_failures;
  json["accumulation_plan"] = nullptr;
  if (subject.effective_batch) {
    if (auto const plan = result.accumulation_for(*subject.effective_batch)) {
      json["accumulation_plan"] = {
          {"batch_size", plan->batch_size}, {"count", plan->count}, {"batch_size_ran", plan->batch_size_ran}};
    }
  }
  json["warnings"] = result.warnings;
  json["seconds"] = search.seconds;
  json["trial_count"] = search.trial_count();
  json["neighbour_trial_count"] = search.neighbour_trial_count();
  json["trials"] = Json::array();
  for (auto const& record : search.trials) { json["trials"].push_back(json_of(record)); }
  return json;
}

/// Texts of exceptions may hold anything; a broken byte must not cost the user the answer.
std::string dump(Json const& json) { return json.dump(2, ' ', false, Json::error_handler_t::replace); }

}  // namespace

std::string to_json(FinderResult const& result, ReportSubject const& subject) {
  auto json = json_of(result, subject);
  json["version"] = version();
  return dump(json);
}

std::string to_json(std::vector<ReportEntry> const& entries, std::string const& note) {
  Json json;
  json["note"] = note;
  json["results"] = Json::array();
  for (auto const& entry : entries) {
    if (entry.error) {
      auto failed = json_of_question(entry.result, entry.subject);
      failed["error"] = *entry.error;
      json["results"].push_back(std::move(failed));
    } else {
      auto answered = json_of(entry.result, entry.subject);
      answered["error"] = nullptr;
      json["results"].push_back(std::move(answered));
    }
  }
  json["version"] = version();
  return dump(json);
}

}  // namespace maxbatch
