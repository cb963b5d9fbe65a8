#pragma once

#include <maxbatch/impl/simulation/allocator_state.hpp>
#include <maxbatch/impl/simulation/rounded_up.hpp>

#include <algorithm>
#include <utility>

namespace maxbatch::detail {
inline namespace MAXBATCH_ABI_NAMESPACE {

MAXBATCH_INLINE void AllocatorState::empty_cache(PrivatePoolId pool) {
  if (pool.is_default()) {
    release_cached_blocks();
    return;
  }
  auto const number = pools_.find_private_pool(pool);
  if (number >= 0) { release_private_pools(number); }
}

MAXBATCH_INLINE bool AllocatorState::release_cached_blocks() {
  if (captures_.empty()) {
    synchronise_and_free_events();
    release_blocks_of(PoolTable::kLargePool);
    release_blocks_of(PoolTable::kSmallPool);
  }
  release_private_pools(std::nullopt);
  return true;
}

MAXBATCH_INLINE void AllocatorState::release_private_pools(std::optional<int> only) {
  if (pools_.private_pool_count() == 0) { return; }
  for (auto const number : pools_.private_pools_by_id()) {
    if (!pools_.private_pool(number).freeable || (only && *only != number)) { continue; }
    if (only) { synchronise_and_free_events_of(number); }
    release_blocks_of(PoolTable::small_pool_of(number));
    release_blocks_of(PoolTable::large_pool_of(number));
    auto& pool = pools_.private_pool(number);
    if (pool.device_segments <= 0) { pool.exists = false; }
  }
}

MAXBATCH_INLINE void AllocatorState::synchronise_and_free_events() {
  ++counters.num_sync_all_streams;
  process_deferred();
  if (!events_.empty()) {
    for (auto const stream : streams_in_order()) { finish_events(events_.take(stream, /*all=*/true)); }
  }
  for (auto const index : std::exchange(awaiting_outside_, {})) {
    blocks_[index].awaits_outside = false;
    blocks_[index].awaited_events = 0;
    complete(index);
  }
}

MAXBATCH_INLINE void AllocatorState::synchronise_and_free_events_of(int private_pool) {
  ++counters.num_sync_all_streams;
  process_deferred();
  auto const is_of_pool = [&](BlockIndex index) {
    return pools_.pool(pools_.list(blocks_[index].list).pool).private_pool == private_pool;
  };
  for (auto const stream : streams_in_order()) { finish_events(events_.take_if(stream, is_of_pool)); }
}

/// Whole segments go back; of expandable ones, the pages that lie wholly in a free block.
MAXBATCH_INLINE void AllocatorState::release_blocks_of(PoolIndex pool) {
  std::vector<BlockIndex> whole;
  std::vector<BlockIndex> to_unmap;
  for (auto const list_index : pools_.pool(pool).lists) {
    auto const& free = pools_.list(list_index).free;
    for (auto place = free.begin(); !place.is_end(); place = free.next(place)) {
      auto const index = free[place].block;
      if (blocks_[index].expandable != 0) {
        to_unmap.push_back(index);
      } else if (!blocks_[index].is_split()) {
        whole.push_back(index);
      }
    }
  }
  for (auto const index : whole) { release(index); }
  for (auto const index : to_unmap) {
    unmap(index);
    if (!blocks_[index].is_split() && !blocks_[index].mapped) { remove_expandable(index); }
  }
}

MAXBATCH_INLINE void AllocatorState::release(BlockIndex index) {
  auto const block = blocks_[index];
  auto& list = pools_.list(block.list);
  ++counters.num_device_free;
  record(AllocatorAction::segment_free, block.address, block.size, block.list);
  addresses.release(block.address);
  device_used_ -= rounded_up(block.size, DriverAddressSpace::kGranule);
  auto const private_pool = pools_.pool(list.pool).private_pool;
  if (private_pool >= 0) { --pools_.private_pool(private_pool).device_segments; }
  counters.segment.decrease(list.small, 1);
  counters.reserved_bytes.decrease(list.small, static_cast<std::int64_t>(block.size));
  if (block.size >= rules_.max_split) { counters.oversize_segments.decrease(1); }
  list.free.erase(block.size, block.address);
  blocks_.remove(index);
}

/// With a split size only: the one block that would have been too large to split, or else the largest ones until as much
/// as is needed has been given back.
MAXBATCH_INLINE bool AllocatorState::release_available(Request const& request) {
  if (rules_.splits_all()) { return false; }
  auto& list = pools_.list(request.list);
  auto const needed = std::max(request.size, rules_.max_split);
  auto place = list.free.lower_bound(needed);
  if (!place.is_end() && blocks_[list.free[place].block].expandable == 0) {
    release(list.free[place].block);
    return true;
  }
  // From the largest downwards; the places change with each release.
  std::vector<BlockIndex> candidates;
  for (place = list.free.previous(place); !place.is_end() && list.free[place].size() >= rules_.max_split;
       place = list.free.previous(place)) {
    candidates.push_back(list.free[place].block);
  }
  std::uint64_t released = 0;
  for (auto const index : candidates) {
    if (released >= needed) { break; }
    if (blocks_[index].expandable != 0) { continue; }
    released += blocks_[index].size;
    release(index);
  }
  return released >= needed;
}

MAXBATCH_INLINE void AllocatorState::collect_garbage() {
  auto const threshold =
      static_cast<std::uint64_t>(settings.garbage_collection_threshold * static_cast<double>(limit->count));
  if (reserved() <= threshold) { return; }
  auto const target = reserved() - threshold;
  auto const& pool = pools_.pool(PoolTable::kLargePool);
  auto const age_of = [&](BlockIndex index) { return pool.searches - blocks_[index].age_base; };
  std::vector<BlockIndex> whole;
  std::uint64_t total_age = 0;
  for (auto const list_index : pool.lists) {
    auto const& free = pools_.list(list_index).free;
    for (auto place = free.begin(); !place.is_end(); place = free.next(place)) {
      auto const index = free[place].block;
      if (blocks_[index].is_split()) { continue; }
      total_age += age_of(index);
      whole.push_back(index);
    }
  }
  auto count = whole.size();
  std::uint64_t reclaimed = 0;
  bool released = true;
  while (reclaimed < target && released && count > 0) {
    auto const average = static_cast<double>(total_age) / static_cast<double>(count);
    released = false;
    std::vector<BlockIndex> left;
    for (auto const index : whole) {
      if (blocks_[index].expandable != 0 || static_cast<double>(age_of(index)) < average) {
        left.push_back(index);
        continue;
      }
      released = true;
      reclaimed += blocks_[index].size;
      total_age -= age_of(index);
      --count;
      release(index);
    }
    whole = std::move(left);
  }
}

}  // namespace MAXBATCH_ABI_NAMESPACE
}  // namespace maxbatch::detail
