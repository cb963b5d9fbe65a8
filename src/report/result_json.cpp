#include "../training/json_values.hpp"
#include "speed_values.hpp"
#include <maxbatch/report/result_json.hpp>
#include <maxbatch/report/version.hpp>

namespace maxbatch {
namespace {

using detail::add_failed_request;
using detail::add_peaks;
using detail::dump;
using detail::Json;
using detail::or_null;

Json json_of(TrialRecord const& record) {
  Json trial;
  trial["batch_size"] = record.batch_size;
  trial["purpose"] = to_string(record.purpose);
  trial["seconds"] = record.seconds;
  detail::add_outcome(trial, record.outcome);
  return trial;
}

/// What was asked. The finder's budget has the headroom taken off; the report says the whole, as the user gave it.
Json json_of_question(FinderResult const& result, ReportSubject const& subject) {
  Json json;
  auto const is_program = !subject.command.empty();
  json["model"] = is_program ? Json(nullptr) : Json(subject.model);
  json["command"] = is_program ? Json(subject.command) : Json(nullptr);
  json["varied"] = is_program ? Json(subject.varied) : Json(nullptr);
  json["device"] = result.device.torch_device.str();
  json["device_name"] = result.device.name;
  json["card"] = subject.card.empty() ? Json(nullptr) : Json(subject.card);
  json["evidence"] = to_string(result.device.evidence);
  json["device_bytes"] = result.device.total.count;
  json["budget_bytes"] =
      result.device.budget ? Json((*result.device.budget + result.headroom).count) : Json(result.device.total.count);
  json["headroom_bytes"] = result.headroom.count;
  json["outside_allocator_bytes"] =
      result.device.outside_allocator ? Json(result.device.outside_allocator->count) : Json(nullptr);
  json["recipe"] = is_program ? Json(nullptr) : detail::recipe_to_json(subject.recipe);
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
  json["easy_inputs"] = nullptr;
  if (auto const& easy = result.easy_inputs) {
    json["easy_inputs"] = {{"model", easy->model}};
    detail::add_outcome(json["easy_inputs"], easy->outcome);
  }
  json["warnings"] = result.warnings;
  json["seconds"] = search.seconds;
  json["rehearsed_batch_size"] = result.rehearsal ? or_null(result.rehearsal->batch_size) : Json(nullptr);
  json["rehearsal_seconds"] = result.rehearsal ? Json(result.rehearsal->seconds) : Json(nullptr);
  json["warm_up_seconds"] = result.warm_up_seconds;
  json["replayed_batch_size"] = or_null(result.replayed_batch_size);
  json["trial_count"] = search.trial_count();
  json["neighbour_trial_count"] = search.neighbour_trial_count();
  json["trials"] = Json::array();
  for (auto const& record : search.trials) { json["trials"].push_back(json_of(record)); }
  return json;
}

}  // namespace

std::string to_json(FinderResult const& result, ReportSubject const& subject) {
  auto json = json_of(result, subject);
  json["version"] = version();
  return dump(json, 2);
}

std::string to_json(std::vector<ReportEntry> const& entries, std::string const& note) {
  Json json;
  json["note"] = note;
  json["results"] = Json::array();
  for (auto const& entry : entries) {
    if (entry.error) {
      auto failed = json_of_question(entry.result, entry.subject);
      failed["error"] = *entry.error;
      failed["speed"] = nullptr;
      json["results"].push_back(std::move(failed));
    } else {
      auto answered = json_of(entry.result, entry.subject);
      answered["error"] = nullptr;
      answered["speed"] = entry.speed ? report::speed_to_json(*entry.speed) : Json(nullptr);
      json["results"].push_back(std::move(answered));
    }
  }
  json["version"] = version();
  return dump(json, 2);
}

}  // namespace maxbatch
