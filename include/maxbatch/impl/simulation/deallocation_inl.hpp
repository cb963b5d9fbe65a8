#pragma once

#include <maxbatch/impl/simulation/allocator_state.hpp>

#include <algorithm>
#include <utility>

namespace maxbatch::detail {
inline namespace MAXBATCH_ABI_NAMESPACE {

MAXBATCH_INLINE void AllocatorState::free(BlockId id) {
  if (!holds(id)) { complain_about(id); }
  let_go(id.index);
  if (blocks_[id.index].uses == 0) {
    complete(id.index);
  } else if (captures_.empty()) {
    insert_events(id.index);
  } else {
    deferred_.push_back(id.index);
  }
}

MAXBATCH_INLINE void AllocatorState::request_free(BlockId id) {
  if (!holds(id)) { complain_about(id); }
  let_go(id.index);
  auto& block = blocks_[id.index];
  uses_.take(block, [](StreamIndex, bool) {});
  block.awaited_events = 1;
  block.awaits_outside = true;
  awaiting_outside_.push_back(id.index);
}

MAXBATCH_INLINE bool AllocatorState::complete_free(BlockId id) {
  if (holds(id)) {
    throw InvalidAllocatorCall("block " + std::to_string(id.index) + " is still allocated: request_free comes first");
  }
  if (!id || id.index >= blocks_.end()) { complain_about(id); }
  auto& block = blocks_[id.index];
  if (block.generation != id.generation || !block.awaits_outside) { return false; }
  // Nearly always the last one.
  auto const found = std::find(awaiting_outside_.rbegin(), awaiting_outside_.rend(), id.index);
  awaiting_outside_.erase(std::prev(found.base()));
  block.awaits_outside = false;
  block.awaited_events = 0;
  complete(id.index);
  return true;
}

MAXBATCH_INLINE void AllocatorState::record_stream(BlockId id, StreamHandle stream) {
  if (!holds(id)) { complain_about(id); }
  auto& block = blocks_[id.index];
  if (pools_.list(block.list).stream == stream) { return; }
  uses_.add(block, pools_.stream_index(stream), !captures_.empty());
}

MAXBATCH_INLINE void AllocatorState::synchronise(StreamHandle stream) {
  events_.synchronise(pools_.stream_index(stream));
}

/// The part of a free that the caller sees.
MAXBATCH_INLINE void AllocatorState::let_go(BlockIndex index) {
  auto& block = blocks_[index];
  block.allocated = false;
  auto const small = block.small;
  counters.allocation.decrease(small, 1);
  counters.allocated_bytes.decrease(small, static_cast<std::int64_t>(block.size));
  record(AllocatorAction::free_requested, block.address, block.requested, block.list);
  if (block.size >= rules_.max_split) { counters.oversize_allocations.decrease(1); }
}

/// The part that makes the block available.
MAXBATCH_INLINE void AllocatorState::complete(BlockIndex index) {
  auto& block = blocks_[index];
  record(AllocatorAction::free_completed, block.address, block.requested, block.list);
  auto const small = block.small;
  auto const size = static_cast<std::int64_t>(block.size);
  counters.active.decrease(small, 1);
  counters.active_bytes.decrease(small, size);
  counters.requested_bytes.decrease(small, static_cast<std::int64_t>(block.requested));
  block.requested = 0;
  std::int64_t split_blocks = 0;
  std::int64_t split_bytes = 0;
  for (auto const neighbour : {block.previous, block.next}) {
    if (auto const merged = merge(index, neighbour)) {
      --split_blocks;
      split_bytes -= static_cast<std::int64_t>(merged);
    }
  }
  insert_free(index);
  if (block.is_split()) {
    ++split_blocks;
    split_bytes += static_cast<std::int64_t>(block.size);
  }
  if (block.expandable == 0) {
    counters.inactive_split.change(small, split_blocks);
    counters.inactive_split_bytes.change(small, split_bytes);
  }
}

/// What `into` grew by: 0 when the neighbour cannot be merged.
MAXBATCH_INLINE std::uint64_t AllocatorState::merge(BlockIndex into, BlockIndex neighbour) {
  if (neighbour == kNoBlock) { return 0; }
  auto& block = blocks_[into];
  auto& other = blocks_[neighbour];
  if (!other.is_free() || other.mapped != block.mapped) { return 0; }
  auto& list = pools_.list(other.list);
  other.mapped ? list.free.erase(other.size, other.address) : list.erase_unmapped(other.address);
  if (block.previous == neighbour) {
    block.address = other.address;
    block.previous = other.previous;
    if (other.previous != kNoBlock) { blocks_[other.previous].next = into; }
  } else {
    block.next = other.next;
    if (other.next != kNoBlock) { blocks_[other.next].previous = into; }
  }
  auto const size = other.size;
  block.size += size;
  blocks_.remove(neighbour);
  return size;
}

MAXBATCH_INLINE void AllocatorState::insert_free(BlockIndex index) {
  auto& block = blocks_[index];
  auto& list = pools_.list(block.list);
  block.age_base = pools_.pool(list.pool).searches;
  list.free.insert(block.size, block.address, index);
}

MAXBATCH_INLINE void AllocatorState::insert_events(BlockIndex index) {
  auto& block = blocks_[index];
  uses_.take(block, [&](StreamIndex stream, bool) {
    ++block.awaited_events;
    events_.push(stream, index);
  });
}

/// Uses that a capture saw are over when it is.
MAXBATCH_INLINE void AllocatorState::process_deferred() {
  for (auto const index : std::exchange(deferred_, {})) {
    auto& block = blocks_[index];
    uses_.take(block, [&](StreamIndex stream, bool in_capture) {
      if (in_capture) { return; }
      ++block.awaited_events;
      events_.push(stream, index);
    });
    if (block.awaited_events == 0) { complete(index); }
  }
}

MAXBATCH_INLINE void AllocatorState::process_events() {
  process_deferred();
  if (events_.empty()) { return; }
  for (auto const stream : streams_in_order()) {
    finish_events(events_.take(stream, event_timing_ == EventTiming::immediate));
  }
}

MAXBATCH_INLINE void AllocatorState::finish_events(std::vector<BlockIndex> const& blocks) {
  for (auto const index : blocks) {
    if (--blocks_[index].awaited_events == 0) { complete(index); }
  }
}

MAXBATCH_INLINE std::vector<StreamIndex> AllocatorState::streams_in_order() const {
  std::vector<StreamIndex> streams(events_.stream_count());
  for (std::size_t i = 0; i < streams.size(); ++i) { streams[i] = static_cast<StreamIndex>(i); }
  std::sort(streams.begin(), streams.end(),
            [&](StreamIndex a, StreamIndex b) { return pools_.stream(a) < pools_.stream(b); });
  return streams;
}

MAXBATCH_INLINE void AllocatorState::complain_about(BlockId id) const {
  if (!id) { throw InvalidAllocatorCall("a null block: its request was refused, or was for 0 bytes"); }
  throw InvalidAllocatorCall("block " + std::to_string(id.index) + " (the " + std::to_string(id.generation) +
                             ". of that number) is not allocated: it was freed before, or is another simulator's");
}

}  // namespace MAXBATCH_ABI_NAMESPACE
}  // namespace maxbatch::detail
