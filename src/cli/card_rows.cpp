#include "card_rows.hpp"

#include "answers_by_memory.hpp"
#include "argument_values.hpp"
#include "run_search.hpp"
#include "stop_signal.hpp"
#include "usage_error.hpp"
#include <maxbatch/search/errors.hpp>
#include <maxbatch/simulation/card_catalogue.hpp>
#include <maxbatch/training/child_process_runner.hpp>

#include <algorithm>
#include <atomic>
#include <deque>
#include <exception>
#include <map>
#include <mutex>
#include <numeric>
#include <optional>
#include <thread>
#include <utility>

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

std::string no_kernels_for(Card const& card) {
  return "LibTorch " + std::string(kernels_build()) + " has no kernels for " + std::string(card.name) +
         ": this is what its memory would hold, and a LibTorch that has them is needed to train there";
}

class StopsOnSignal : public SearchObserver {
 public:
  bool stop_requested() override { return StopSignal::was_given(); }
};

using AnswersOfModels = std::map<ModelFactory const*, AnswersByMemory>;

/// All models on one card, one after another in one child.
class CardRows {
 public:
  CardRows(Card const& card, SearchArguments const& arguments) : card_(card), arguments_(arguments) {
    ChildProcessOptions children;
    children.world.dry_card = card.name;
    children.fresh_process_per_trial = arguments.fresh_processes;
    children.trial_timeout = arguments.trial_timeout;
    runner_.emplace(children);
  }

  ReportEntry answer(ModelFactory const& model, AnswersByMemory& others) {
    ReportEntry entry;
    entry.subject = subject_for(model, arguments_);
    entry.subject.card = card_.name;  // what CUDA calls it may be the name of several
    auto options = arguments_.finder;
    options.search.divisor_of = arguments_.effective_batch;
    auto const memory = card_.total_memory - card_.context.when_training();
    std::optional<ExpectedSize> expected;
    if (auto const size = others.expected(memory)) { expected.emplace(*size); }
    StopsOnSignal observer;
    try {
      entry.result = runner_->find(model.name, recipe_for(arguments_), options, std::nullopt, &observer,
                                   expected ? &*expected : nullptr);
      if (entry.result.search.proof == Proof::bracketed) { others.add(memory, *entry.result.batch_size()); }
      if (!kernels_for(card_.architecture.capability)) { entry.result.warnings.push_back(no_kernels_for(card_)); }
    } catch (InvalidArgument const&) { throw; } catch (std::exception const& error) {
      entry.error = first_line_of(error);
      entry.result.device.name = card_.device_name;
      entry.result.device.evidence = DeviceEvidence::dry;
      entry.result.device.total = card_.total_memory;
    }
    return entry;
  }

 private:
  Card const& card_;
  SearchArguments const& arguments_;
  std::optional<ChildProcessRunner> runner_;
};

/// Cards by index, so that early answers bound the later ones: the least memory, the most, then always the middle between.
std::vector<std::size_t> order_of(std::vector<Card> const& cards) {
  std::vector<std::size_t> by_memory(cards.size());
  std::iota(by_memory.begin(), by_memory.end(), std::size_t{0});
  std::stable_sort(by_memory.begin(), by_memory.end(),
                   [&](std::size_t a, std::size_t b) { return cards[a].total_memory < cards[b].total_memory; });
  std::vector<std::size_t> order;
  if (by_memory.empty()) { return order; }
  order.push_back(by_memory.front());
  if (by_memory.size() > 1) { order.push_back(by_memory.back()); }
  std::deque<std::pair<std::size_t, std::size_t>> gaps = {{0, by_memory.size() - 1}};
  while (!gaps.empty()) {
    auto const [low, high] = gaps.front();
    gaps.pop_front();
    if (high - low < 2 || low > high) { continue; }
    auto const middle = low + (high - low) / 2;
    order.push_back(by_memory[middle]);
    gaps.emplace_back(low, middle);
    gaps.emplace_back(middle, high);
  }
  return order;
}

}  // namespace

std::vector<Card> read_cards(std::string const& option, std::string const& text) {
  std::vector<Card> cards;
  auto const add = [&cards](Card const& card) {
    auto const is_there = std::any_of(cards.begin(), cards.end(), [&](Card const& c) { return c.name == card.name; });
    if (!is_there) { cards.push_back(card); }
  };
  for (auto const& name : split_at_commas(text)) {
    if (name != "all") {
      add(read_card(option, name));
      continue;
    }
    for (auto const& card : CardCatalogue::built_in().all()) {
      if (kernels_for(card.architecture.capability)) { add(card); }
    }
  }
  return cards;
}

std::vector<ReportEntry> rows_of_cards(std::vector<ModelFactory> const& models, std::vector<Card> const& cards,
                                       SearchArguments const& arguments, Surroundings const& surroundings) {
  // A card's models side by side in one place; rows come out by model, as they are printed.
  std::vector<std::vector<std::optional<ReportEntry>>> entries_of_card(
      cards.size(), std::vector<std::optional<ReportEntry>>(models.size()));
  AnswersOfModels answers;
  for (auto const& model : models) { answers[&model]; }
  auto const order = order_of(cards);
  auto const row_count = models.size() * cards.size();
  StopSignal const stop_signal;
  std::atomic<std::size_t> next{0};
  std::mutex mutex;
  std::size_t done = 0;
  std::exception_ptr mistake;
  auto const work = [&] {
    for (auto place = next++; place < order.size(); place = next++) {
      auto const card = order[place];
      CardRows rows(cards[card], arguments);
      for (std::size_t model = 0; model < models.size() && !StopSignal::was_given(); ++model) {
        try {
          entries_of_card[card][model] = rows.answer(models[model], answers.at(&models[model]));
        } catch (...) {  // the caller's mistake, and the same one in every row
          std::lock_guard const lock(mutex);
          mistake = std::current_exception();
          next = order.size();
          return;
        }
        std::lock_guard const lock(mutex);
        auto const line = std::to_string(++done) + " of " + std::to_string(row_count) + " searches done";
        surroundings.status.show(line);
      }
    }
  };
  std::vector<std::thread> workers;
  for (std::size_t i = 0; i < workers_for(cards.size()); ++i) { workers.emplace_back(work); }
  for (auto& worker : workers) { worker.join(); }
  surroundings.status.clear();
  if (mistake) { std::rethrow_exception(mistake); }
  std::vector<ReportEntry> entries;
  for (std::size_t model = 0; model < models.size(); ++model) {
    for (auto& of_card : entries_of_card) {
      if (of_card[model]) { entries.push_back(std::move(*of_card[model])); }
    }
  }
  return entries;
}

}  // namespace maxbatch::cli
