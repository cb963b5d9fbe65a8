#include "result_sentences.hpp"
#include <maxbatch/search/errors.hpp>
#include <maxbatch/training/finder_result.hpp>
#include <maxbatch/training/input_size.hpp>

#include <algorithm>
#include <string>

namespace maxbatch {

std::optional<AccumulationPlan> FinderResult::accumulation_for(std::int64_t effective_batch) const {
  detail::require_at_least_one(effective_batch, "effective_batch");
  if (!search.batch_size) { return std::nullopt; }
  AccumulationPlan plan;
  for (auto size = std::min(*search.batch_size, effective_batch); size >= 1; --size) {
    if (effective_batch % size != 0) { continue; }
    plan.batch_size = size;
    plan.count = effective_batch / size;
    break;
  }
  plan.batch_size_ran = std::any_of(search.trials.begin(), search.trials.end(), [&plan](TrialRecord const& trial) {
    return trial.batch_size == plan.batch_size && is_fit(trial.outcome.verdict);
  });
  return plan;
}

std::string FinderResult::summary() const {
  auto const name = [](std::int64_t size) { return std::to_string(size); };
  return detail::summarise(*this, name);
}

std::string InputSizeResult::summary() const {
  auto const name = [this](std::int64_t shorter) {
    for (auto const& image : {largest, next}) {
      if (image && image->height == shorter) {
        return std::to_string(image->height) + "x" + std::to_string(image->width);
      }
    }
    return std::to_string(shorter);
  };
  return detail::summarise(finder, name);
}

}  // namespace maxbatch
