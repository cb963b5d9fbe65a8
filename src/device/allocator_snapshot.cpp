#include "allocator_snapshot.hpp"

#include <c10/core/AllocatorConfig.h>
#include <c10/cuda/CUDACachingAllocator.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>

namespace maxbatch::detail {
namespace {

using c10::CachingAllocator::AcceleratorAllocatorConfig;
using c10::CachingDeviceAllocator::BlockInfo;

TraceBlock::State state_of(BlockInfo const& block) {
  if (block.allocated) { return TraceBlock::State::allocated; }
  return block.active ? TraceBlock::State::pending_free : TraceBlock::State::inactive;
}

std::uint64_t round_up(std::uint64_t size, std::uint64_t unit) { return (size + unit - 1) / unit * unit; }

/// With a division of powers of two, `size` goes up to the next of `divisions` steps between two powers.
std::int64_t rounded(std::int64_t requested) {
  constexpr std::uint64_t smallest = c10::CachingAllocator::kMinBlockSize;
  auto const size = static_cast<std::uint64_t>(requested);
  if (size < smallest) { return smallest; }
  auto const divisions = AcceleratorAllocatorConfig::roundup_power2_divisions(size);
  if (divisions <= 1 || size <= smallest * divisions) { return static_cast<std::int64_t>(round_up(size, smallest)); }
  std::uint64_t power = 1;
  while (power <= size / 2) { power *= 2; }
  return static_cast<std::int64_t>(round_up(size, power / divisions));
}

}  // namespace

std::vector<TraceSegment> allocator_segments(c10::DeviceIndex device, AllocationTrace& trace) {
  std::vector<TraceSegment> segments;
  auto const snapshot = c10::cuda::CUDACachingAllocator::snapshot({0, 0}, /*include_traces=*/false);
  for (auto const& info : snapshot.segments) {
    if (info.device != device) { continue; }
    TraceSegment segment;
    segment.address = info.address;
    segment.size = static_cast<std::int64_t>(info.total_size);
    segment.stream = trace.stream_index(static_cast<std::uint64_t>(reinterpret_cast<std::uintptr_t>(info.stream)));
    segment.pool = trace.pool_index({info.owner_private_pool_id.first, info.owner_private_pool_id.second});
    segment.small = !info.is_large;
    segment.expandable = info.is_expandable;
    auto address = segment.address;
    for (auto const& block : info.blocks) {
      segment.blocks.push_back({address, static_cast<std::int64_t>(block.size),
                                static_cast<std::int64_t>(block.requested_size), state_of(block)});
      address += block.size;
    }
    segments.push_back(std::move(segment));
  }
  return segments;
}

BlockLayout::Rules allocator_rules() {
  BlockLayout::Rules rules;
  rules.rounded = rounded;
  rules.largest_split =
      static_cast<std::int64_t>(std::min(AcceleratorAllocatorConfig::max_split_size(),
                                         static_cast<std::size_t>(std::numeric_limits<std::int64_t>::max())));
  rules.expandable_segments = AcceleratorAllocatorConfig::use_expandable_segments();
  return rules;
}

}  // namespace maxbatch::detail
