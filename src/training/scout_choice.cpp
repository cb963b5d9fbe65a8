#include "scout_choice.hpp"

#include <maxbatch/search/allowed_sizes.hpp>

namespace maxbatch::detail {
namespace {

constexpr std::int64_t kSmallestSize = 2;
constexpr int kDraws = 5;
constexpr std::int64_t kFurtherSteps = 12;

}  // namespace

std::vector<std::int64_t> sizes_to_record(SearchOptions const& search) {
  AllowedSizes const sizes(search);
  std::vector<std::int64_t> chosen;
  for (auto i = sizes.index_at_most(kSmallestSize - 1) + 1; i < sizes.count() && chosen.size() < 2; ++i) {
    chosen.push_back(sizes.at(i));
  }
  return chosen;
}

ScalingOptions scaling_on_same_card(int multiprocessors, int threads_per_multiprocessor) {
  ScalingOptions scaling;
  if (multiprocessors > 0) {
    scaling.recorded_on = {multiprocessors, threads_per_multiprocessor};
    scaling.scaled_to = scaling.recorded_on;
  }
  return scaling;
}

PredictionOptions search_prediction_options() {
  PredictionOptions options;
  options.draws = kDraws;
  options.further_steps = kFurtherSteps;
  return options;
}

}  // namespace maxbatch::detail
