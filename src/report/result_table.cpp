#include "recipe_text.hpp"
#include "speed_values.hpp"
#include "text_table.hpp"
#include <maxbatch/report/result_table.hpp>

#include <algorithm>
#include <array>
#include <cstdio>
#include <iterator>

namespace maxbatch {
namespace {

using report::TextTable;
using report::wrap;

constexpr std::size_t kWidth = 100;

std::string fixed(double value, int decimals) {
  std::array<char, 64> text{};
  std::snprintf(text.data(), text.size(), "%.*f", decimals, value);
  return text.data();
}

/// Columns of amounts share one unit, so that they can be compared down the column.
std::string mib(Bytes amount) { return fixed(static_cast<double>(amount.count) / (1 << 20), 1); }

std::string text_of(std::optional<std::int64_t> value) { return value ? std::to_string(*value) : "-"; }

std::string list_of(std::vector<std::int64_t> const& values) {
  std::string text;
  for (auto const value : values) { text += (text.empty() ? "" : ", ") + std::to_string(value); }
  return text;
}

/// What the user gave: the finder's own budget has the headroom taken off.
Bytes whole_budget(FinderResult const& result) {
  return result.device.budget ? *result.device.budget + result.headroom : result.device.total;
}

/// Where everything of a step runs in a named phase, `other` only repeats what is held between them.
bool says_something(TrialRecord const& trial, Phase phase) {
  auto const& phases = trial.outcome.phases;
  return std::any_of(phases.begin(), phases.end(), [&](PhasePeaks const& known) {
    return known.phase == phase && (phase != Phase::other || known.peaks.allocated == trial.outcome.peaks.allocated);
  });
}

std::string trials_of(FinderResult const& result) {
  auto const& trials = result.search.trials;
  std::vector<Phase> phases;
  std::copy_if(kAllPhases.begin(), kAllPhases.end(), std::back_inserter(phases), [&](Phase phase) {
    return std::any_of(trials.begin(), trials.end(),
                       [&](TrialRecord const& trial) { return says_something(trial, phase); });
  });
  std::vector<TextTable::Column> columns = {
      {"trial"}, {"batch"}, {"purpose", TextTable::Align::left}, {"outcome", TextTable::Align::left}, {"peak MiB"}};
  for (auto const phase : phases) { columns.push_back({std::string(to_string(phase))}); }
  columns.push_back({"seconds"});
  TextTable table(std::move(columns));
  for (std::size_t i = 0; i < trials.size(); ++i) {
    auto const& record = trials[i];
    std::vector<std::string> row = {std::to_string(i + 1), std::to_string(record.batch_size),
                                    std::string(to_string(record.purpose)),
                                    std::string(to_string(record.outcome.verdict)),
                                    record.outcome.peaks == MemoryPeaks{} ? "-" : mib(record.outcome.peaks.reserved)};
    for (auto const phase : phases) {
      auto const found = std::find_if(record.outcome.phases.begin(), record.outcome.phases.end(),
                                      [&](PhasePeaks const& peaks) { return peaks.phase == phase; });
      row.push_back(found == record.outcome.phases.end() ? "-" : mib(found->peaks.allocated));
    }
    row.push_back(fixed(record.seconds, 2));
    table.add_row(std::move(row));
  }
  return table.to_string();
}

/// "backward, 8 MiB": where the next size failed and what it asked for.
std::string stop_of(SearchResult const& search) {
  auto const* const failure = search.next_failure();
  if (failure == nullptr) { return "-"; }
  if (!failure->outcome.failed_request) { return std::string(to_string(failure->outcome.verdict)); }
  auto const& failed = *failure->outcome.failed_request;
  return std::string(to_string(failed.phase)) + ", " + to_string(failed.requested);
}

std::string peaks_of(TrialOutcome const& outcome) {
  if (!is_fit(outcome.verdict)) { return std::string(to_string(outcome.verdict)); }
  return "reserved " + mib(outcome.peaks.reserved) + " MiB, allocated " + mib(outcome.peaks.allocated) + " MiB";
}

/// By its name in the catalogue where it is not here.
std::string card_of(ReportEntry const& entry) {
  return entry.subject.card.empty() ? entry.result.device.name : entry.subject.card;
}

/// Samples a second at a size; "-": not measured, or it did not pass.
template <typename Rate>
std::string rate_text(SpeedResult const& speed, std::optional<std::int64_t> size, Rate const& rate) {
  auto const* const measured = size ? speed.at(*size) : nullptr;
  auto const value = measured != nullptr ? rate(*measured) : std::nullopt;
  return value ? report::three_digits(*value) : "-";
}

/// Of the rows whose speed was measured; empty where there is none.
std::string speed_table(std::vector<ReportEntry> const& entries, bool on_cards) {
  std::vector<TextTable::Column> columns = {{"model", TextTable::Align::left}};
  if (on_cards) { columns.push_back({"card", TextTable::Align::left}); }
  for (auto const* const title : {"budget", "batch", "training/s", "its knee", "inference/s", "its knee"}) {
    columns.push_back({title});
  }
  TextTable table(std::move(columns));
  auto is_empty = true;
  for (auto const& entry : entries) {
    if (!entry.speed) { continue; }
    is_empty = false;
    auto const& speed = *entry.speed;
    std::vector<std::string> row = {entry.subject.model};
    if (on_cards) { row.push_back(card_of(entry)); }
    row.push_back(to_string(whole_budget(entry.result)));
    row.push_back(text_of(entry.result.batch_size()));
    auto const add = [&](std::optional<std::int64_t> knee, auto const& rate) {
      row.push_back(rate_text(speed, entry.result.batch_size(), rate));
      row.push_back(knee ? rate_text(speed, knee, rate) + " at " + std::to_string(*knee) : "-");
    };
    add(speed.training_knee(), [](SpeedAtSize const& size) { return size.training_rate(); });
    add(speed.inference_knee(), [](SpeedAtSize const& size) { return size.inference_rate(); });
    table.add_row(std::move(row));
  }
  if (is_empty) { return ""; }
  return '\n' +
         wrap("Samples a second at that batch; its knee is the smallest batch within 5 % of the best speed.", kWidth) +
         '\n' + table.to_string();
}

}  // namespace

std::string to_text(FinderResult const& result, ReportSubject const& subject) {
  auto const& search = result.search;
  auto const is_program = !subject.command.empty();
  auto const what = is_program ? subject.command : subject.model + ": " + report::recipe_text(subject.recipe);
  auto text = wrap(what + "; on " + result.device.name + ", " + to_string(whole_budget(result)) +
                       (result.headroom > Bytes{0} ? ", of which " + to_string(result.headroom) + " is kept free" : ""),
                   kWidth);
  text += wrap(result.summary(), kWidth);
  if (subject.effective_batch) {
    if (auto const plan = result.accumulation_for(*subject.effective_batch)) {
      text += wrap("Effective batch " + std::to_string(*subject.effective_batch) + ": " + std::to_string(plan->count) +
                       (plan->count == 1 ? " micro-batch" : " micro-batches") + " of " +
                       std::to_string(plan->batch_size) + " per optimizer step.",
                   kWidth);
    }
  }
  text += '\n';
  auto const line = [&](std::string const& name, std::string const& value) {
    std::string const indent(22, ' ');
    auto const dots = name.size() + 3 < indent.size() ? indent.size() - name.size() - 1 : 2;
    text += wrap(name + std::string(dots, '.') + " " + value, kWidth, indent);
  };
  auto const has_name = is_program && subject.varied != "{}" && subject.varied.size() < 20;
  line(has_name ? "largest " + subject.varied + ' ' : std::string("largest batch "), text_of(search.batch_size));
  line("proof ", std::string(to_string(search.proof)));
  if (search.largest_clean_batch_size && search.largest_clean_batch_size != search.batch_size) {
    line("largest clean batch ", std::to_string(*search.largest_clean_batch_size));
  }
  if (!search.gaps.empty()) { line("failed below it ", list_of(search.gaps)); }
  if (!search.spurious_failures.empty()) { line("failed only once ", list_of(search.spurious_failures)); }
  if (auto const outside = result.device.outside_allocator) {
    line("outside the budget ", to_string(*outside) + " of the device: context, libraries, other processes");
  }
  if (auto const& easy = result.easy_inputs; easy && search.answer() != nullptr) {
    line("this recipe's peak ", peaks_of(search.answer()->outcome));
    line("with easy inputs ", peaks_of(easy->outcome) + " (" + easy->model + ", one run; no part of the proof)");
  }
  auto const neighbours = search.neighbour_trial_count();
  line("trials ", std::to_string(search.trial_count()) +
                      (neighbours > 0 ? " and " + std::to_string(neighbours) + " of neighbours" : "") + " in " +
                      fixed(search.seconds, 1) + " s, up to " + std::to_string(result.steps) + " steps each");
  if (result.rehearsal) {
    line("rehearsed dry ", text_of(result.rehearsal->batch_size) + " in " + fixed(result.rehearsal->seconds, 1) + " s");
  }
  if (result.replayed_batch_size) {
    line("replay predicted ", std::to_string(*result.replayed_batch_size) + ", from recordings of small sizes");
  }
  if (result.warm_up_seconds >= 0.05) {
    line("warm-up ", fixed(result.warm_up_seconds, 1) + " s, before the first trial");
  }
  for (auto const& warning : result.warnings) { line("warning ", warning); }
  return text + '\n' + trials_of(result);
}

std::string to_table(std::vector<ReportEntry> const& entries, std::string const& heading) {
  // On this machine's cpu the budget says all; cards differ in more than their memory.
  auto const on_cards = std::any_of(entries.begin(), entries.end(), [](ReportEntry const& entry) {
    return entry.result.device.evidence != DeviceEvidence::cpu;
  });
  std::vector<TextTable::Column> columns = {{"model", TextTable::Align::left}};
  if (on_cards) { columns.push_back({"card", TextTable::Align::left}); }
  for (auto const& column : std::vector<TextTable::Column>{{"budget"},
                                                           {"batch"},
                                                           {"peak MiB"},
                                                           {"next"},
                                                           {"its failure", TextTable::Align::left},
                                                           {"proof", TextTable::Align::left},
                                                           {"trials"},
                                                           {"seconds"}}) {
    columns.push_back(column);
  }
  TextTable table(std::move(columns));
  std::string notes;
  for (auto const& entry : entries) {
    auto const& subject = entry.subject;
    auto const& result = entry.result;
    auto const& error = entry.error;
    std::vector<std::string> row = {subject.model};
    auto const card = card_of(entry);
    if (on_cards) { row.push_back(card); }
    row.push_back(to_string(whole_budget(result)));
    auto const where = subject.model + (on_cards ? " on " + card : " under " + to_string(whole_budget(result)));
    if (error) {
      row.emplace_back("failed");
      table.add_row(std::move(row));
      notes += wrap(where + " failed: " + *error, kWidth, "  ");
      continue;
    }
    auto const& search = result.search;
    auto const* const answer = search.answer();
    for (auto& cell : std::vector<std::string>{
             text_of(search.batch_size), answer == nullptr ? "-" : mib(answer->outcome.peaks.reserved),
             text_of(search.next_batch_size), stop_of(search), std::string(to_string(search.proof)),
             std::to_string(search.trial_count() + search.neighbour_trial_count()), fixed(search.seconds, 1)}) {
      row.push_back(std::move(cell));
    }
    table.add_row(std::move(row));
    for (auto const& warning : result.warnings) { notes += wrap(where + ": " + warning, kWidth, "  "); }
  }
  return wrap(heading, kWidth) + '\n' + table.to_string() + speed_table(entries, on_cards) +
         (notes.empty() ? "" : '\n' + notes);
}

}  // namespace maxbatch
