#pragma once

#include <maxbatch/config.hpp>
#include <maxbatch/impl/simulation/free_blocks.hpp>
#include <maxbatch/simulation/allocator_settings.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>

namespace maxbatch::detail {
inline namespace MAXBATCH_ABI_NAMESPACE {

constexpr std::uint64_t kSmallSize = std::uint64_t{1} << 20;       // the largest size in the small pool
constexpr std::uint64_t kSmallBuffer = std::uint64_t{2} << 20;     // what the small pool buys
constexpr std::uint64_t kMinLargeAlloc = std::uint64_t{10} << 20;  // from here on a request buys its own size
constexpr std::uint64_t kRoundLarge = std::uint64_t{2} << 20;
constexpr std::uint64_t kImpossibleSize = std::uint64_t{1} << 60;  // refused before it reaches the allocator

/// The settings as plain numbers, for the inner loops.
struct SizeRules {
  std::uint64_t large_segment = 0;
  std::uint64_t max_split = std::numeric_limits<std::uint64_t>::max();
  std::uint64_t max_non_split_rounding = 0;
  bool rounds_to_divisions = false;
  std::array<std::uint64_t, 16> divisions{};

  explicit SizeRules(AllocatorSettings const& settings)
      : large_segment(static_cast<std::uint64_t>(settings.large_segment_size.count)),
        max_non_split_rounding(static_cast<std::uint64_t>(settings.max_non_split_rounding.count)) {
    if (settings.max_split_size) { max_split = static_cast<std::uint64_t>(settings.max_split_size->count); }
    for (std::size_t i = 0; i < divisions.size(); ++i) {
      divisions[i] = static_cast<std::uint64_t>(settings.roundup_power2_divisions[i]);
      rounds_to_divisions = rounds_to_divisions || divisions[i] > 1;
    }
  }

  bool splits_all() const { return max_split == std::numeric_limits<std::uint64_t>::max(); }

  std::uint64_t rounded(std::uint64_t requested) const {
    if (requested < kMinBlockSize) { return kMinBlockSize; }
    if (rounds_to_divisions) {
      auto const doublings = 63 - __builtin_clzll(requested);
      auto const division = divisions[static_cast<std::size_t>(std::clamp(doublings - 20, 0, 15))];
      if (division > 1 && requested > kMinBlockSize * division) {
        auto const step = (std::uint64_t{1} << doublings) / division;
        return step == 0 ? std::uint64_t{2} << doublings : (requested + step - 1) / step * step;
      }
    }
    return (requested + kMinBlockSize - 1) / kMinBlockSize * kMinBlockSize;
  }

  /// What is bought for a rounded size.
  std::uint64_t segment_for(std::uint64_t size) const {
    if (size <= kSmallSize) { return kSmallBuffer; }
    if (size < kMinLargeAlloc) { return large_segment; }
    return (size + kRoundLarge - 1) / kRoundLarge * kRoundLarge;
  }
};

}  // namespace MAXBATCH_ABI_NAMESPACE
}  // namespace maxbatch::detail
