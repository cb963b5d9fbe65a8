#pragma once

#include <maxbatch/bytes.hpp>

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>

namespace maxbatch {
inline namespace MAXBATCH_ABI_NAMESPACE {

/// Which sizes may be tried, and when to stop. Every bound is inclusive and exact.
struct SearchOptions {
  std::int64_t minimum = 1;
  std::optional<std::int64_t> maximum;  ///< none: until a size fails
  std::int64_t multiple_of = 1;
  std::optional<std::int64_t> divisor_of;   ///< a wanted effective batch: only its divisors are tried
  std::optional<std::int64_t> enough;       ///< stop at the smallest allowed size that is at least this
  std::optional<std::int64_t> probe_above;  ///< how many allowed sizes above the boundary to try as well, since
                                            ///< memory is not monotone in the batch; none: 2 when the allocator
                                            ///< was under pressure near the boundary, else 0
  bool require_clean = false;               ///< a size that fits only under pressure does not count as fitting
  std::optional<std::int64_t> max_trials;   ///< calls of the probe, scouts, repeats and neighbours included
  std::optional<std::chrono::duration<double>> max_duration;  ///< no trial starts later than this
  std::function<void()> before_retry;  ///< release what is cached: called before a failed size is repeated
  std::function<double()> clock;       ///< seconds, never going back; none: std::chrono::steady_clock
};

}  // namespace MAXBATCH_ABI_NAMESPACE
}  // namespace maxbatch
