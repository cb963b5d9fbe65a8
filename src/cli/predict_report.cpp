#include "predict_report.hpp"

#include "report/text_table.hpp"
#include <maxbatch/report/version.hpp>

#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <string_view>

namespace maxbatch::cli {
namespace {

using nlohmann::ordered_json;

constexpr std::array<SizeLaw::Kind, 5> kKinds = {SizeLaw::Kind::constant, SizeLaw::Kind::affine,
                                                 SizeLaw::Kind::reduction, SizeLaw::Kind::workspace,
                                                 SizeLaw::Kind::jumping};

std::string_view meaning_of(SizeLaw::Kind kind) {
  switch (kind) {
    case SizeLaw::Kind::constant: return "do not depend on the batch";
    case SizeLaw::Kind::affine: return "grow by whole bytes for each sample";
    case SizeLaw::Kind::reduction: return "scratch of sums over rows, whose law is known";
    case SizeLaw::Kind::workspace: return "libraries' workspaces, which follow no law: a line";
    case SizeLaw::Kind::jumping: return "follow no law that was found: a line";
  }
  return "";
}

template <class T>
ordered_json or_null(std::optional<T> const& value) {
  return value ? ordered_json(*value) : ordered_json(nullptr);
}
ordered_json or_null(std::optional<Bytes> const& value) {
  return value ? ordered_json(value->count) : ordered_json(nullptr);
}

std::string mib(Bytes amount) {
  auto const tenths = (amount.count * 10 + (std::int64_t{1} << 19)) >> 20;
  return std::to_string(tenths / 10) + '.' + std::to_string(tenths % 10);
}

CandidateEvidence const* evidence_at(BatchPrediction const& prediction, std::int64_t batch_size, bool elastic) {
  for (auto const& candidate : prediction.candidates) {
    if (candidate.batch_size == batch_size && candidate.workspaces_are_elastic == elastic) { return &candidate; }
  }
  return nullptr;
}

std::string sentence(PredictReport const& report) {
  auto const& prediction = report.prediction;
  auto const where = (report.limit ? to_string(*report.limit) + " of reserved bytes"
                                   : report.card + ", " + to_string(report.budget) + " beside its context");
  if (!prediction.elastic_largest_batch_size) { return "Nothing is predicted to fit in " + where + "."; }
  auto const strict = prediction.largest_batch_size.value_or(0);
  std::string text;
  if (prediction.is_elastic()) {
    text = "Between " + std::to_string(strict) + " and " + std::to_string(*prediction.elastic_largest_batch_size) +
           " is predicted to fit in " + where + ": above " + std::to_string(strict) +
           " a library has to do without a workspace";
    if (prediction.refused_workspace && prediction.short_by) {
      text += " of " + to_string(*prediction.refused_workspace) + ", for which " + to_string(*prediction.short_by) +
              " are missing";
    }
    return text + ". Whether it can, only a run tells.";
  }
  text = std::to_string(strict) + " is predicted to be the largest batch that fits in " + where;
  if (prediction.is_largest_allowed) { return text + ", and the largest that was looked at."; }
  auto const* const next = evidence_at(prediction, strict + 1, false);
  if (next != nullptr && next->first_draw.refused) {
    text += "; " + std::to_string(strict + 1) + " asks for " + to_string(next->first_draw.refused->requested) +
            " that it cannot have";
  }
  return text + '.';
}

std::string outcome_of(CandidateEvidence const& candidate) {
  std::string text = candidate.fits ? "fits" : "out of memory";
  if (candidate.first_draw.refused_workspaces > 0 && candidate.fits) {
    text += ", without " + std::to_string(candidate.first_draw.refused_workspaces) + " workspaces";
  }
  return text;
}

std::string candidates_table(BatchPrediction const& prediction) {
  using Align = report::TextTable::Align;
  report::TextTable table({{"batch"},
                           {"workspaces", Align::left},
                           {"outcome", Align::left},
                           {"reserved MiB"},
                           {"lowest"},
                           {"highest"},
                           {"draws"},
                           {"that fit"},
                           {"allocated MiB"},
                           {"retries"}});
  for (auto const& candidate : prediction.candidates) {
    auto const& peak = candidate.reserved_peak;
    auto const fit = peak.draws - peak.out_of_memory;
    auto const reserved = [&](Bytes amount) { return fit > 0 ? mib(amount) : std::string("-"); };
    table.add_row({std::to_string(candidate.batch_size), candidate.workspaces_are_elastic ? "elastic" : "as recorded",
                   outcome_of(candidate), reserved(peak.most_frequent), reserved(peak.lowest), reserved(peak.highest),
                   std::to_string(peak.draws), std::to_string(fit), mib(candidate.first_draw.allocated_peak),
                   std::to_string(candidate.first_draw.retries)});
  }
  return table.to_string();
}

std::string statement_table(ScalingStatement const& statement) {
  using Align = report::TextTable::Align;
  report::TextTable table({{"sizes", Align::left}, {"requests"}, {"MiB at the peak"}, {"which", Align::left}});
  auto const add = [&](std::string_view name, ScalingStatement::Share const& share, std::string_view meaning) {
    if (share.requests == 0) { return; }
    table.add_row({std::string(name), std::to_string(share.requests), mib(share.at_peak), std::string(meaning)});
  };
  for (auto const kind : kKinds) { add(to_string(kind), statement.of(kind), meaning_of(kind)); }
  add("new", statement.only_in_larger, "only the largest recording has them: a guess");
  return table.to_string();
}

ordered_json json_of(CandidateEvidence const& candidate) {
  auto const& peak = candidate.reserved_peak;
  auto const some_fit = peak.out_of_memory < peak.draws;
  auto const bytes = [&](Bytes amount) { return some_fit ? ordered_json(amount.count) : ordered_json(nullptr); };
  auto const& run = candidate.first_draw;
  ordered_json json;
  json["batch_size"] = candidate.batch_size;
  json["workspaces"] = candidate.workspaces_are_elastic ? "elastic" : "recorded";
  json["fits"] = candidate.fits;
  json["peak_reserved_bytes"] = bytes(peak.most_frequent);
  json["lowest_peak_reserved_bytes"] = bytes(peak.lowest);
  json["highest_peak_reserved_bytes"] = bytes(peak.highest);
  json["draws"] = peak.draws;
  json["draws_out_of_memory"] = peak.out_of_memory;
  json["peak_allocated_bytes"] = run.allocated_peak.count;
  json["retry_count"] = run.retries;
  json["refused_workspaces"] = run.refused_workspaces;
  json["failed_request_bytes"] =
      run.failed_request && run.refused ? ordered_json(run.refused->requested.count) : ordered_json(nullptr);
  return json;
}

ordered_json json_of(ScalingStatement const& statement) {
  ordered_json json;
  json["peak_bytes"] = statement.peak.count;
  auto const share = [](ScalingStatement::Share const& of) {
    return ordered_json{{"requests", of.requests}, {"bytes_at_peak", of.at_peak.count}};
  };
  for (auto const kind : kKinds) { json["by_law"][std::string(to_string(kind))] = share(statement.of(kind)); }
  json["only_in_larger"] = share(statement.only_in_larger);
  json["only_in_smaller_requests"] = statement.only_in_smaller;
  json["loops"] = statement.loops;
  json["loop_requests"] = statement.loop_requests;
  json["reductions_begun"] = statement.reductions_begun;
  return json;
}

}  // namespace

std::string predict_text(PredictReport const& report) {
  constexpr std::size_t width = 118;
  std::string text = report::wrap(sentence(report), width);
  text += "\n" + candidates_table(report.prediction);
  if (report.statement) { text += "\n" + statement_table(*report.statement); }
  if (!report.notes.empty()) { text += '\n'; }
  for (auto const& note : report.notes) { text += report::wrap("note: " + note, width, "      "); }
  return text;
}

std::string predict_json(PredictReport const& report) {
  auto const& prediction = report.prediction;
  ordered_json json;
  json["largest_batch_size"] = or_null(prediction.largest_batch_size);
  json["elastic_largest_batch_size"] = or_null(prediction.elastic_largest_batch_size);
  json["is_elastic"] = prediction.is_elastic();
  json["refused_workspace_bytes"] = or_null(prediction.refused_workspace);
  json["short_by_bytes"] = or_null(prediction.short_by);
  json["is_largest_allowed"] = prediction.is_largest_allowed;
  json["gaps"] = prediction.gaps;
  json["limit_bytes"] = or_null(report.limit);
  json["card"] = report.card.empty() ? ordered_json(nullptr) : ordered_json(report.card);
  json["budget_bytes"] = report.budget.count;
  json["allocator_settings"] = report.allocator_settings;
  json["recorded_on"] = report.recorded_on;
  json["evidence"] = "extrapolated";
  json["recordings"] = ordered_json::array();
  for (auto const& recording : report.recordings) {
    json["recordings"].push_back({{"file", recording.file},
                                  {"batch_size", recording.batch_size},
                                  {"requests", recording.requests},
                                  {"same_structure", recording.same_structure}});
  }
  json["candidates"] = ordered_json::array();
  for (auto const& candidate : prediction.candidates) { json["candidates"].push_back(json_of(candidate)); }
  json["extrapolated"] = report.statement ? json_of(*report.statement) : ordered_json(nullptr);
  json["checked_requests"] = report.checked_requests;
  json["disproved_requests"] = report.disproved_requests;
  json["notes"] = report.notes;
  json["version"] = version();
  return json.dump(2) + '\n';
}

}  // namespace maxbatch::cli
