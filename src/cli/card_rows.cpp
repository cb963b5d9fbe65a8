#include "card_rows.hpp"

#include "argument_values.hpp"
#include "run_search.hpp"
#include "stop_signal.hpp"
#include "usage_error.hpp"
#include <maxbatch/search/errors.hpp>
#include <maxbatch/simulation/card_catalogue.hpp>
#include <maxbatch/training/child_process_runner.hpp>

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <optional>
#include <thread>

#include <unistd.h>

namespace maxbatch::cli {
namespace {

/// Host memory of one child: LibTorch, and the model's bookkeeping; its tensors on a dry card take none.
constexpr std::int64_t kBytesPerChild = std::int64_t{1} << 30;

std::size_t workers_for(std::size_t rows) {
  auto const free_bytes = static_cast<std::int64_t>(sysconf(_SC_AVPHYS_PAGES)) * sysconf(_SC_PAGESIZE);
  auto const by_memory = static_cast<std::size_t>(std::max<std::int64_t>(1, free_bytes / kBytesPerChild));
  return std::max<std::size_t>(1, std::min({rows, by_memory, std::size_t{std::thread::hardware_concurrency()}}));
}

class StopsOnSignal : public SearchObserver {
 public:
  bool stop_requested() override { return StopSignal::was_given(); }
};

struct Row {
  ModelFactory const* model;
  Card const* card;
  std::optional<ReportEntry> entry;
};

ReportEntry answer(Row const& row, SearchArguments const& arguments) {
  ReportEntry entry;
  entry.subject = subject_for(*row.model, arguments);
  entry.subject.card = row.card->name;  // what CUDA calls it may be the name of several
  auto options = arguments.finder;
  options.search.divisor_of = arguments.effective_batch;
  ChildProcessOptions children;
  children.world.dry_card = row.card->name;
  children.fresh_process_per_trial = arguments.fresh_processes;
  children.trial_timeout = arguments.trial_timeout;
  StopsOnSignal observer;
  try {
    entry.result =
        ChildProcessRunner(children).find(row.model->name, recipe_for(arguments), options, std::nullopt, &observer);
  } catch (InvalidArgument const&) { throw; } catch (std::exception const& error) {
    entry.error = first_line_of(error);
    entry.result.device.name = row.card->device_name;
    entry.result.device.evidence = DeviceEvidence::dry;
    entry.result.device.total = row.card->total_memory;
  }
  return entry;
}

}  // namespace

std::vector<Card> read_cards(std::string const& option, std::string const& text) {
  auto const& catalogue = CardCatalogue::built_in();
  std::vector<Card> cards;
  if (text == "all") {
    std::copy_if(catalogue.all().begin(), catalogue.all().end(), std::back_inserter(cards),
                 [](Card const& card) { return kernels_for(card.architecture.capability).has_value(); });
    return cards;
  }
  for (auto const& name : split_at_commas(text)) {
    cards.push_back(read_card(option, name));
    if (!kernels_for(cards.back().architecture.capability)) {
      throw UsageError(option + ": LibTorch " + std::string(kernels_build()) + " has no kernels for " + name +
                       ": it could not train there");
    }
  }
  return cards;
}

std::vector<ReportEntry> rows_of_cards(std::vector<ModelFactory> const& models, std::vector<Card> const& cards,
                                       SearchArguments const& arguments, Surroundings const& surroundings) {
  std::vector<Row> rows;
  for (auto const& model : models) {
    for (auto const& card : cards) { rows.push_back({&model, &card, std::nullopt}); }
  }
  StopSignal const stop_signal;
  std::atomic<std::size_t> next{0};
  std::mutex mutex;
  std::size_t done = 0;
  std::exception_ptr mistake;
  auto const work = [&] {
    for (auto index = next++; index < rows.size() && !StopSignal::was_given(); index = next++) {
      try {
        rows[index].entry = answer(rows[index], arguments);
      } catch (...) {  // the caller's mistake, and the same one in every row
        std::lock_guard const lock(mutex);
        mistake = std::current_exception();
        next = rows.size();
        return;
      }
      std::lock_guard const lock(mutex);
      auto const line = std::to_string(++done) + " of " + std::to_string(rows.size()) + " searches done";
      surroundings.status.show(line);
    }
  };
  std::vector<std::thread> workers;
  for (std::size_t i = 0; i < workers_for(rows.size()); ++i) { workers.emplace_back(work); }
  for (auto& worker : workers) { worker.join(); }
  surroundings.status.clear();
  if (mistake) { std::rethrow_exception(mistake); }
  std::vector<ReportEntry> entries;
  for (auto& row : rows) {
    if (row.entry) { entries.push_back(std::move(*row.entry)); }
  }
  return entries;
}

}  // namespace maxbatch::cli
