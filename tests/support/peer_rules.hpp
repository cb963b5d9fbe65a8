#pragma once

#include <cstdint>

namespace maxbatch::test {

struct PeerAnswer {
  std::int64_t batch_size = 0;
  std::int64_t trials = 0;
};

/// The rule of Lightning's batch-size tuner in mode "binsearch", without its 5 % margin: doubling from `start` until a size
/// fails, then bisection. Written from its documented behaviour (Lightning 2.5).
inline PeerAnswer lightning_binary_search(std::int64_t limit, std::int64_t start) {
  PeerAnswer answer;
  std::int64_t low = 1;
  std::int64_t high = 0;
  for (auto size = start;;) {
    ++answer.trials;
    if (size <= limit) {
      low = size;
    } else {
      high = size;
    }
    if (high != 0 && high - low <= 1) { break; }
    size = high != 0 ? (low + high) / 2 : 2 * size;
  }
  answer.batch_size = low;
  return answer;
}

/// The rule of Accelerate's find_executable_batch_size: nine tenths after each failure, from `start`; never upward.
inline PeerAnswer accelerate_from(std::int64_t limit, std::int64_t start) {
  PeerAnswer answer;
  for (auto size = start; size > 0; size = size * 9 / 10) {
    ++answer.trials;
    if (size <= limit) {
      answer.batch_size = size;
      break;
    }
  }
  return answer;
}

}  // namespace maxbatch::test
