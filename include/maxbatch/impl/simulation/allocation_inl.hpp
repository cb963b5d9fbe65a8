#pragma once

#include <maxbatch/impl/simulation/allocator_state.hpp>
#include <maxbatch/impl/simulation/rounded_up.hpp>

#include <algorithm>
#include <utility>

namespace maxbatch::detail {
inline namespace MAXBATCH_ABI_NAMESPACE {

MAXBATCH_INLINE BlockId AllocatorState::allocate_in(PrivatePoolId pool, std::uint64_t requested, StreamHandle stream) {
  if (pool.is_default()) { return allocate(requested, stream); }
  auto number = pools_.find_private_pool(pool);
  if (number < 0) {
    number = pools_.add_private_pool(pool);
    pools_.private_pool(number).use_count = 1;
  }
  captures_.push_back({pool, number, std::nullopt});
  auto const block = allocate(requested, stream);
  captures_.pop_back();
  return block;
}

MAXBATCH_INLINE BlockId AllocatorState::allocate(std::uint64_t requested, StreamHandle stream) {
  if (requested == 0) { return {}; }
  Request request;
  request.requested = requested;
  request.size = rules_.rounded(requested);
  request.segment = rules_.segment_for(request.size);
  if (requested >= kImpossibleSize) {  // never reaches the device's allocator: no event, no statistic
    refused = RefusedRequest{Bytes{static_cast<std::int64_t>(requested)},
                             Bytes{static_cast<std::int64_t>(request.size)},
                             Bytes{static_cast<std::int64_t>(request.segment)},
                             stream,
                             Bytes{counters.allocated_bytes.current},
                             Bytes{counters.reserved_bytes.current},
                             limit,
                             Bytes{device_free()}};
    return {};
  }
  if (captures_.empty() && !(events_.empty() && deferred_.empty())) { process_events(); }
  request.list = pools_.list_of(pool_for(request.size, stream), pools_.stream_index(stream));

  auto block = search(request);
  if (block == kNoBlock) {
    if (collects_garbage()) { collect_garbage(); }
    block = buy(request);
    if (block == kNoBlock) { block = serve_from_fallback_pools(request, stream); }
    if (block == kNoBlock && release_available(request)) { block = buy(request); }
    if (block == kNoBlock && captures_.empty() && release_cached_blocks()) {
      // The pool is not searched again, although waiting for events may have freed what was asked for (PyTorch #189504).
      ++counters.num_alloc_retries;
      block = buy(request);
    }
    if (block == kNoBlock) {
      refuse(request);
      return {};
    }
  }
  return hand_out(block, request);
}

MAXBATCH_INLINE PoolIndex AllocatorState::pool_for(std::uint64_t size, StreamHandle stream) const {
  auto const small = size <= kSmallSize;
  for (auto capture = captures_.rbegin(); capture != captures_.rend(); ++capture) {
    if (!capture->stream || *capture->stream == stream) {
      return small ? PoolTable::small_pool_of(capture->private_pool) : PoolTable::large_pool_of(capture->private_pool);
    }
  }
  return small ? PoolTable::kSmallPool : PoolTable::kLargePool;
}

/// Best fit: the smallest block that is large enough, the lowest address among equals.
MAXBATCH_INLINE BlockIndex AllocatorState::search(Request const& request) {
  auto& list = pools_.list(request.list);
  if (collects_garbage()) { ++pools_.pool(list.pool).searches; }
  auto const place = place_for(list, request.size);
  if (!place) { return kNoBlock; }
  auto const entry = list.free[*place];
  // One such block, and the request gets none, even if others would do.
  if (request.size < rules_.max_split ? entry.size() >= rules_.max_split
                                      : entry.size() >= request.size + rules_.max_non_split_rounding) {
    return kNoBlock;
  }
  list.free.erase(*place);
  return entry.block;
}

MAXBATCH_INLINE std::optional<FreeBlocks::Place> AllocatorState::place_for(BlockList const& list,
                                                                           std::uint64_t size) const {
  auto place = list.free.lower_bound(size);
  if (place.is_end()) { return std::nullopt; }
  if (expandable_.empty()) { return place; }
  auto const block_at = [&](FreeBlocks::Place at) -> Block const& { return blocks_[list.free[at].block]; };
  if (block_at(place).expandable == 0) { return place; }
  if (settings.expandable_segments) {
    // What such a block could grow to is its size here.
    for (auto next = list.free.next(place);
         block_at(place).expandable != 0 && !next.is_end() && reach(block_at(next)) < reach(block_at(place));
         next = list.free.next(next)) {
      place = next;
    }
    return place;
  }
  do { place = list.free.next(place); } while (!place.is_end() && block_at(place).expandable != 0);
  return place.is_end() ? std::nullopt : std::optional(place);
}

MAXBATCH_INLINE BlockIndex AllocatorState::buy(Request const& request) {
  if (limit && reserved() + request.segment > static_cast<std::uint64_t>(limit->count)) { return kNoBlock; }
  auto& list = pools_.list(request.list);
  auto const private_pool = pools_.pool(list.pool).private_pool;
  auto index = kNoBlock;
  if (settings.expandable_segments) {
    index = map_for(request);
    if (index == kNoBlock) { return kNoBlock; }
  } else {
    auto const taken = rounded_up(request.segment, DriverAddressSpace::kGranule);
    if (static_cast<std::int64_t>(taken) > device_free()) { return kNoBlock; }
    auto const address = addresses.allocate(Bytes{static_cast<std::int64_t>(request.segment)});
    if (!address) { return kNoBlock; }
    device_used_ += taken;
    index = blocks_.add();
    auto& block = blocks_[index];
    block.address = *address;
    block.size = request.segment;
    block.list = request.list;
    block.small = list.small;
    counters.segment.increase(list.small, 1);
    counters.reserved_bytes.increase(list.small, static_cast<std::int64_t>(request.segment));
    if (request.segment >= rules_.max_split) { counters.oversize_segments.increase(1); }
    ++counters.num_device_alloc;
    record(AllocatorAction::segment_alloc, *address, request.segment, request.list);
  }
  if (private_pool >= 0) { ++pools_.private_pool(private_pool).device_segments; }
  return index;
}

/// Nothing is bought for these pools, and a request that is in a private pool already gets no other.
MAXBATCH_INLINE BlockIndex AllocatorState::serve_from_fallback_pools(Request& request, StreamHandle stream) {
  if (pools_.private_pool_count() == 0 || pools_.pool(pools_.list(request.list).pool).private_pool >= 0) {
    return kNoBlock;
  }
  for (auto const number : pools_.private_pools_by_id()) {
    auto const& private_pool = pools_.private_pool(number);
    if (!private_pool.use_on_oom || private_pool.use_count == 0) { continue; }
    auto in_pool = request;
    auto const pool = request.size <= kSmallSize ? PoolTable::small_pool_of(number) : PoolTable::large_pool_of(number);
    in_pool.list = pools_.list_of(pool, pools_.stream_index(stream));
    auto const block = search(in_pool);
    if (block != kNoBlock) {
      request = in_pool;
      return block;
    }
  }
  return kNoBlock;
}

MAXBATCH_INLINE bool AllocatorState::should_split(Block const& block, std::uint64_t size, BlockPool const& pool) const {
  if (pool.private_pool >= 0 && pools_.private_pool(pool.private_pool).no_split) { return false; }
  auto const rest = block.size - size;
  if (pool.small || settings.expandable_segments) { return rest >= kMinBlockSize; }
  return size < rules_.max_split && rest > kSmallSize;
}

MAXBATCH_INLINE BlockId AllocatorState::hand_out(BlockIndex index, Request const& request) {
  auto const small = blocks_[index].small;
  auto const was_split = blocks_[index].is_split();
  auto const counts_splits = blocks_[index].expandable == 0;
  if (should_split(blocks_[index], request.size, pools_.pool(pools_.list(request.list).pool))) {
    auto const rest_index = index;
    index = blocks_.add();
    auto& rest = blocks_[rest_index];
    auto& head = blocks_[index];
    head.address = rest.address;
    head.size = request.size;
    head.list = rest.list;
    head.small = rest.small;
    head.expandable = rest.expandable;
    head.previous = rest.previous;
    head.next = rest_index;
    if (rest.previous != kNoBlock) { blocks_[rest.previous].next = index; }
    rest.previous = index;
    rest.address += request.size;
    rest.size -= request.size;
    insert_free(rest_index);
    if (counts_splits) {
      if (was_split) {
        counters.inactive_split_bytes.decrease(small, static_cast<std::int64_t>(request.size));
      } else {
        counters.inactive_split.increase(small, 1);
        counters.inactive_split_bytes.increase(small, static_cast<std::int64_t>(rest.size));
      }
    }
  } else if (was_split && counts_splits) {
    counters.inactive_split.decrease(small, 1);
    counters.inactive_split_bytes.decrease(small, static_cast<std::int64_t>(blocks_[index].size));
  }
  auto& block = blocks_[index];
  block.allocated = true;
  block.requested = request.requested;
  ++block.generation;
  record(AllocatorAction::alloc, block.address, request.requested, request.list);
  auto const size = static_cast<std::int64_t>(block.size);
  counters.allocation.increase(small, 1);
  counters.allocated_bytes.increase(small, size);
  counters.active.increase(small, 1);
  counters.active_bytes.increase(small, size);
  counters.requested_bytes.increase(small, static_cast<std::int64_t>(request.requested));
  if (block.size >= rules_.max_split) { counters.oversize_allocations.increase(1); }
  return {index, block.generation};
}

MAXBATCH_INLINE void AllocatorState::refuse(Request const& request) {
  auto const free_bytes = std::max<std::int64_t>(0, device_free());
  record(AllocatorAction::oom, static_cast<DeviceAddress>(free_bytes), request.size, request.list);
  ++counters.num_ooms;
  refused = RefusedRequest{Bytes{static_cast<std::int64_t>(request.requested)},
                           Bytes{static_cast<std::int64_t>(request.size)},
                           Bytes{static_cast<std::int64_t>(request.segment)},
                           pools_.list(request.list).stream,
                           Bytes{counters.allocated_bytes.current},
                           Bytes{counters.reserved_bytes.current},
                           limit,
                           Bytes{free_bytes}};
}

MAXBATCH_INLINE std::int64_t AllocatorState::device_free() const {
  return device.total_memory.count - device.outside_memory.count - static_cast<std::int64_t>(device_used_);
}

MAXBATCH_INLINE void AllocatorState::append(AllocatorAction action, DeviceAddress address, std::uint64_t size,
                                            ListIndex list_index) {
  auto const& list = pools_.list(list_index);
  auto const private_pool = pools_.pool(list.pool).private_pool;
  history.push_back({action, address, Bytes{static_cast<std::int64_t>(size)}, list.stream,
                     private_pool < 0 ? PrivatePoolId{} : pools_.private_pool(private_pool).id});
}

}  // namespace MAXBATCH_ABI_NAMESPACE
}  // namespace maxbatch::detail
