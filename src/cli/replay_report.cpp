#include "replay_report.hpp"

#include "report/text_table.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>

namespace maxbatch::cli {
namespace {

using nlohmann::ordered_json;

constexpr std::size_t kWidth = 118;

ordered_json count_or_null(std::optional<Bytes> const& amount) {
  return amount ? ordered_json(amount->count) : ordered_json(nullptr);
}

std::string name_of(ReplayEntry const& entry) {
  return entry.device_index ? entry.file + " (device " + std::to_string(*entry.device_index) + ")" : entry.file;
}

/// "under 10,700 MiB"
std::string conditions(ReplayEntry const& entry) {
  if (entry.budget) { return "under " + to_string(*entry.budget); }
  return entry.card.empty() ? "without a limit" : "on a whole " + entry.card;
}

/// "2,048 to 2,052 and 2,060 MiB", of multiples of 2 MiB.
std::string ranges_of(std::vector<Bytes> const& budgets) {
  constexpr std::int64_t step = std::int64_t{2} << 20;
  std::vector<std::string> parts;
  for (std::size_t first = 0; first < budgets.size();) {
    auto last = first;
    while (last + 1 < budgets.size() && budgets[last + 1].count == budgets[last].count + step) { ++last; }
    parts.push_back(to_string(budgets[first]) + (last > first ? " to " + to_string(budgets[last]) : ""));
    first = last + 1;
  }
  constexpr std::size_t most = 12;
  std::string text;
  for (std::size_t i = 0; i < std::min(parts.size(), most); ++i) {
    text += (i == 0 ? "" : i + 1 == parts.size() ? " and " : ", ") + parts[i];
  }
  return parts.size() > most ? text + " and " + std::to_string(parts.size() - most) + " more ranges" : text;
}

std::string verdict(ReplayEntry const& entry) {
  auto const& outcome = entry.outcome;
  if (outcome.fits) { return "fits " + conditions(entry); }
  auto text = "does not fit " + conditions(entry);
  if (!outcome.refused) { return text + ": what the recording begins with takes more"; }
  auto const& refused = *outcome.refused;
  text += ": a request for " + to_string(refused.requested) + " (event " + std::to_string(*outcome.refused_event) +
          " of " + std::to_string(entry.event_count) + ") needed " + to_string(refused.segment_size) + ", with " +
          to_string(refused.reserved) + " reserved after a flush and " + to_string(refused.allocated) +
          " of that in use";
  return text;
}

std::string fragmentation_text(ReplayEntry const& entry) {
  auto const& at_peak = entry.at_peak;
  return "at the peak, " + to_string(at_peak.reserved) + " in " + std::to_string(at_peak.segments) +
         " segments: requested " + to_string(at_peak.requested) + ", lost to rounding " + to_string(at_peak.rounding) +
         ", free parts of segments in use " + to_string(at_peak.split) + ", unused segments " +
         to_string(at_peak.unused_segments) + "; the largest free block has " + to_string(at_peak.largest_free);
}

std::string limits_text(ReplayEntry const& entry) {
  auto const& limits = entry.limits;
  if (!limits.smallest) { return "fits under no budget: more is asked for than the simulator's device has"; }
  auto text = "fits under " + to_string(*limits.smallest) + " and every larger budget, tried in steps of 2 MiB up to " +
              to_string(limits.unlimited_peak) + ", the peak without a limit";
  if (!limits.isolated_fits.empty()) {
    text += "; besides under " + ranges_of(limits.isolated_fits) + ", but not under all between";
  }
  return text;
}

std::string draws_text(ReplayEntry const& entry) {
  auto const& draws = *entry.draws;
  auto text = std::to_string(draws.draws) + " draws of addresses: reserved peak " + to_string(draws.most_frequent) +
              " most often";
  if (draws.lowest != draws.highest) {
    text += ", " + to_string(draws.lowest) + " to " + to_string(draws.highest) + " in all";
  }
  if (draws.out_of_memory > 0) { text += ", out of memory in " + std::to_string(draws.out_of_memory); }
  if (entry.highest_smallest_budget && entry.highest_smallest_budget != entry.limits.smallest) {
    text += "; under " + to_string(*entry.highest_smallest_budget) + " every draw fits";
  }
  return text;
}

ordered_json fragmentation_json(Fragmentation const& at_peak) {
  return {{"reserved_bytes", at_peak.reserved.count},
          {"requested_bytes", at_peak.requested.count},
          {"rounding_bytes", at_peak.rounding.count},
          {"split_free_bytes", at_peak.split.count},
          {"unused_segment_bytes", at_peak.unused_segments.count},
          {"largest_free_block_bytes", at_peak.largest_free.count},
          {"segments", at_peak.segments}};
}

ordered_json draws_json(ReplayEntry const& entry) {
  if (!entry.draws) { return nullptr; }
  auto const& draws = *entry.draws;
  return {{"count", draws.draws},
          {"out_of_memory", draws.out_of_memory},
          {"lowest_peak_reserved_bytes", draws.lowest.count},
          {"highest_peak_reserved_bytes", draws.highest.count},
          {"highest_smallest_budget_bytes", count_or_null(entry.highest_smallest_budget)}};
}

ordered_json json_of(ReplayEntry const& entry) {
  auto const& outcome = entry.outcome;
  auto const& statistics = outcome.statistics;
  auto const* const refused = outcome.refused ? &*outcome.refused : nullptr;
  ordered_json json;
  json["file"] = entry.file;
  json["device"] = entry.device_index ? ordered_json(*entry.device_index) : ordered_json(nullptr);
  json["budget_bytes"] = count_or_null(entry.budget);
  json["card"] = entry.card.empty() ? ordered_json(nullptr) : ordered_json(entry.card);
  json["allocator_settings"] = entry.allocator_settings;
  json["addresses"] = outcome.modelled_addresses ? "modelled" : "recorded";
  json["fits"] = outcome.fits;
  json["peak_requested_bytes"] = statistics.requested_bytes.aggregate.peak;
  json["peak_allocated_bytes"] = statistics.allocated_bytes.aggregate.peak;
  json["peak_reserved_bytes"] = statistics.reserved_bytes.aggregate.peak;
  json["segment_count"] = outcome.segments_bought;
  json["retry_count"] = statistics.num_alloc_retries;
  json["survived_refusals"] = outcome.survived_refusals;
  json["failed_request_bytes"] = refused == nullptr ? ordered_json(nullptr) : ordered_json(refused->requested.count);
  json["failed_segment_bytes"] = refused == nullptr ? ordered_json(nullptr) : ordered_json(refused->segment_size.count);
  json["failed_event"] = outcome.refused_event ? ordered_json(*outcome.refused_event) : ordered_json(nullptr);
  json["fragmentation_at_peak"] = fragmentation_json(entry.at_peak);
  json["smallest_budget_bytes"] = count_or_null(entry.limits.smallest);
  json["isolated_fits"] = ordered_json::array();
  for (auto const fits : entry.limits.isolated_fits) { json["isolated_fits"].push_back(fits.count); }
  json["unlimited_peak_reserved_bytes"] = entry.limits.unlimited_peak.count;
  json["left_recorded_addresses"] = outcome.left_recording;
  json["draws"] = draws_json(entry);
  json["notes"] = entry.notes;
  return json;
}

}  // namespace

std::string replay_text(std::vector<ReplayEntry> const& entries) {
  using Align = report::TextTable::Align;
  report::TextTable table({{"recording", Align::left},
                           {"fits", Align::left},
                           {"requested"},
                           {"allocated"},
                           {"reserved"},
                           {"segments"},
                           {"retries"},
                           {"smallest budget"}});
  std::string sentences;
  for (auto const& entry : entries) {
    auto const& statistics = entry.outcome.statistics;
    table.add_row({name_of(entry), entry.outcome.fits ? "yes" : "no",
                   to_string(Bytes{statistics.requested_bytes.aggregate.peak}),
                   to_string(Bytes{statistics.allocated_bytes.aggregate.peak}),
                   to_string(Bytes{statistics.reserved_bytes.aggregate.peak}),
                   std::to_string(entry.outcome.segments_bought), std::to_string(statistics.num_alloc_retries),
                   entry.limits.smallest ? to_string(*entry.limits.smallest) : "-"});
    auto const say = [&](std::string const& text) { sentences += "  " + report::wrap(text, kWidth - 2, "    "); };
    sentences += '\n' + name_of(entry) + '\n';
    say(verdict(entry));
    say(fragmentation_text(entry));
    say(limits_text(entry));
    if (entry.draws) { say(draws_text(entry)); }
    for (auto const& note : entry.notes) { say(note); }
  }
  return table.to_string() + sentences;
}

std::string replay_json(std::vector<ReplayEntry> const& entries) {
  auto json = ordered_json::array();
  for (auto const& entry : entries) { json.push_back(json_of(entry)); }
  return json.dump(2, ' ', /*ensure_ascii=*/false, ordered_json::error_handler_t::replace) + '\n';
}

}  // namespace maxbatch::cli
