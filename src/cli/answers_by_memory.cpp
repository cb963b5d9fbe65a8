#include "answers_by_memory.hpp"

#include <algorithm>
#include <cmath>
#include <iterator>

namespace maxbatch::cli {

void AnswersByMemory::add(Bytes memory, std::int64_t batch_size) {
  std::lock_guard const lock(mutex_);
  answers_[memory.count] = batch_size;
}

std::optional<std::int64_t> AnswersByMemory::expected(Bytes memory) const {
  std::lock_guard const lock(mutex_);
  if (answers_.size() < 2) { return std::nullopt; }
  // The neighbours on both sides, or the two nearest on one.
  auto above = answers_.lower_bound(memory.count);
  if (above == answers_.begin()) { ++above; }
  if (above == answers_.end()) { --above; }
  auto const below = std::prev(above);
  auto const slope =
      static_cast<double>(above->second - below->second) / static_cast<double>(above->first - below->first);
  auto const guess = static_cast<double>(below->second) + slope * static_cast<double>(memory.count - below->first);
  return std::max<std::int64_t>(1, static_cast<std::int64_t>(std::floor(guess)));
}

}  // namespace maxbatch::cli
