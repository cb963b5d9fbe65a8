#include "result_sentences.hpp"

namespace maxbatch::detail {
namespace {

std::string peak_of(FinderResult const& result, TrialRecord const& trial) {
  auto const budget = result.device.budget.value_or(result.device.total);
  auto text = std::to_string(trial.outcome.steps) + (trial.outcome.steps == 1 ? " step" : " steps");
  if (trial.outcome.peaks.reserved.count > 0) {
    text += ", peak reserved " + to_string(trial.outcome.peaks.reserved) + " of " + to_string(budget);
  }
  if (result.headroom.count > 0) { text += ", " + to_string(result.headroom) + " left free besides"; }
  return text;
}

std::string shortage_of(TrialRecord const& trial) {
  auto const& request = trial.outcome.failed_request;
  if (!request) { return trial.outcome.reason; }
  auto text = std::string(to_string(request->phase)) + " asked for " + to_string(request->requested);
  if (request->segment) { text += " (a segment of " + to_string(*request->segment) + ")"; }
  if (request->short_by_at_least) { text += ", at least " + to_string(*request->short_by_at_least) + " short"; }
  return text;
}

}  // namespace

std::string summarise(FinderResult const& result, std::function<std::string(std::int64_t)> const& name_of) {
  auto const& search = result.search;
  std::string text;
  if (auto const* const answer = search.answer()) {
    text = name_of(*search.batch_size) + " fits: " + peak_of(result, *answer) + " (" +
           std::string(to_string(search.proof)) + ").";
  } else {
    text = search.proof == Proof::nothing_fits ? "Nothing fits." : "No size ran.";
  }
  auto const* const failure = search.next_failure();
  if (failure != nullptr && is_memory_failure(failure->outcome.verdict)) {
    text += " " + name_of(failure->batch_size) + " does not: " + shortage_of(*failure) + ".";
  } else {
    text += " Reason: " + search.reason + ".";
  }
  if (search.proof == Proof::best_so_far && failure != nullptr) { text += " Stopped: " + search.reason + "."; }
  return text;
}

std::vector<std::string> warnings_of(SearchResult const& result) {
  std::vector<std::string> all;
  for (auto const size : result.spurious_failures) {
    all.push_back("size " + std::to_string(size) +
                  " failed once for memory and then passed twice: the failure taught cuDNN smaller plans, or left "
                  "another layout; "
                  "a fresh process that begins with this size may fail");
  }
  return all;
}

}  // namespace maxbatch::detail
