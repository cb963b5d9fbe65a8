#include "step_recogniser.hpp"

#include <algorithm>

namespace maxbatch::dry {

void StepRecogniser::add(StepFigures const& step) {
  steps_.push_back(step);
  if (step.peak_allocated_bytes > peak_allocated_bytes_ || step.reserved_bytes > peak_reserved_bytes_) {
    last_news_ = count();
  }
  peak_allocated_bytes_ = std::max(peak_allocated_bytes_, step.peak_allocated_bytes);
  peak_reserved_bytes_ = std::max(peak_reserved_bytes_, step.reserved_bytes);
}

bool StepRecogniser::is_settled() const {
  constexpr std::int64_t kLongestRound = 16;
  for (std::int64_t round = 1; round <= kLongestRound; ++round) {
    if (repeats(round)) { return true; }
  }
  return is_without_news();
}

bool StepRecogniser::repeats(std::int64_t round) const {
  if (count() < round * std::max<std::int64_t>(2, wanted_)) { return false; }
  return std::equal(steps_.end() - round, steps_.end(), steps_.end() - 2 * round);
}

bool StepRecogniser::is_without_news() const {
  constexpr std::int64_t kFewest = 20;
  auto const quiet = count() - last_news_;
  auto const has_retries = !steps_.empty() && steps_.back().retries > 0;
  return !has_retries && quiet >= std::max({kFewest, wanted_, count() / 2});
}

}  // namespace maxbatch::dry
