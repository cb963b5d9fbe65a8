#pragma once

#include <maxbatch/bytes.hpp>
#include <maxbatch/search/phase.hpp>

#include <algorithm>

namespace maxbatch {
inline namespace MAXBATCH_ABI_NAMESPACE {

/// The largest values that an allocator's counters reached, in LibTorch's words.
/// requested: what the program asked for; allocated: after rounding; active: allocated, plus freed blocks that a stream
/// still uses; reserved: what the allocator holds from the device. A device that cannot tell one apart repeats the next
/// larger one, so that requested <= allocated <= active <= reserved holds at any moment.
struct MemoryPeaks {
  Bytes requested;
  Bytes allocated;
  Bytes active;
  Bytes reserved;

  /// All four at once: a device that knows one number only.
  static constexpr MemoryPeaks all(Bytes amount) { return {amount, amount, amount, amount}; }

  friend constexpr bool operator==(MemoryPeaks const& a, MemoryPeaks const& b) {
    return a.requested == b.requested && a.allocated == b.allocated && a.active == b.active && a.reserved == b.reserved;
  }
};

constexpr MemoryPeaks larger_of_each(MemoryPeaks const& a, MemoryPeaks const& b) {
  return {std::max(a.requested, b.requested), std::max(a.allocated, b.allocated), std::max(a.active, b.active),
          std::max(a.reserved, b.reserved)};
}

struct PhasePeaks {
  Phase phase = Phase::other;
  MemoryPeaks peaks;
};

}  // namespace MAXBATCH_ABI_NAMESPACE
}  // namespace maxbatch
