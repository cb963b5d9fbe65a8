#pragma once

#include <maxbatch/impl/simulation/allocator_state.hpp>
#include <maxbatch/impl/simulation/rounded_up.hpp>

#include <algorithm>

namespace maxbatch::detail {
inline namespace MAXBATCH_ABI_NAMESPACE {

/// The size of a block with the unmapped addresses that follow it.
MAXBATCH_INLINE std::uint64_t AllocatorState::reach(Block const& block) const {
  auto const& next = blocks_[block.next];
  return block.size + (block.next != kNoBlock && !next.mapped ? next.size : 0);
}

/// A block of at least the size, out of the free ones; parts that were mapped before a failure stay.
MAXBATCH_INLINE BlockIndex AllocatorState::map_for(Request const& request) {
  auto index = room_for(request);
  if (!blocks_[index].mapped && !map(index, std::min(blocks_[index].size, request.size))) { return kNoBlock; }
  while (blocks_[index].size < request.size) {
    // Here an unmapped block follows; mapping a part of it merges that with what lies before.
    auto const next = blocks_[index].next;
    if (next == kNoBlock) { return kNoBlock; }  // more than the segment can ever hold
    if (!map(next, std::min(request.size - blocks_[index].size, blocks_[next].size))) { return kNoBlock; }
    index = next;
  }
  auto const& block = blocks_[index];
  pools_.list(request.list).free.erase(block.size, block.address);
  return index;
}

/// Where free and unmapped blocks in a row are large enough, at the lowest address; else a new segment's only block.
MAXBATCH_INLINE BlockIndex AllocatorState::room_for(Request const& request) {
  auto& list = pools_.list(request.list);
  for (auto const& unmapped : list.unmapped) {
    auto first = unmapped.block;
    auto const previous = blocks_[first].previous;
    if (previous != kNoBlock && blocks_[previous].is_free()) { first = previous; }
    if (has_room(first, request.size)) { return first; }
  }
  auto const page = list.small ? kSmallBuffer : rules_.large_segment;
  auto const total = static_cast<std::uint64_t>(device.total_memory.count);
  ExpandableSegment segment;
  segment.page = page;
  segment.size = rounded_up(total + total / 8, page);
  segment.address = addresses.reserve(Bytes{static_cast<std::int64_t>(segment.size)});
  segment.exists = true;
  auto number = std::size_t{0};
  while (number < expandable_.size() && expandable_[number].exists) { ++number; }
  if (number == expandable_.size()) { expandable_.emplace_back(); }
  expandable_[number] = segment;
  auto const index = blocks_.add();
  auto& block = blocks_[index];
  block.address = segment.address;
  block.size = segment.size;
  block.list = request.list;
  block.small = list.small;
  block.expandable = static_cast<std::uint32_t>(number + 1);
  block.mapped = false;
  list.insert_unmapped(block.address, index);
  return index;
}

MAXBATCH_INLINE bool AllocatorState::has_room(BlockIndex first, std::uint64_t size) const {
  std::uint64_t bytes = 0;
  for (auto index = first; bytes < size && index != kNoBlock && blocks_[index].is_free(); index = blocks_[index].next) {
    bytes += blocks_[index].size;
  }
  return bytes >= size;
}

/// Maps whole pages from the beginning of an unmapped block.
MAXBATCH_INLINE bool AllocatorState::map(BlockIndex index, std::uint64_t size) {
  auto& segment = expandable_[blocks_[index].expandable - 1];
  auto const mapped = rounded_up(size, segment.page);
  if (static_cast<std::int64_t>(mapped) > device_free()) { return false; }
  device_used_ += mapped;
  auto& list = pools_.list(blocks_[index].list);
  list.erase_unmapped(blocks_[index].address);
  if (blocks_[index].size == segment.size) {
    segment.address = addresses.settled(segment.address, Bytes{static_cast<std::int64_t>(mapped)});
    blocks_[index].address = segment.address;
  }
  auto const address = blocks_[index].address;
  addresses.note_mapped(address, Bytes{static_cast<std::int64_t>(mapped)});
  blocks_[index].mapped = true;
  if (mapped < blocks_[index].size) {
    auto const rest_index = blocks_.add();
    auto& block = blocks_[index];
    auto& rest = blocks_[rest_index];
    rest.address = address + mapped;
    rest.size = block.size - mapped;
    rest.list = block.list;
    rest.small = block.small;
    rest.expandable = block.expandable;
    rest.mapped = false;
    rest.previous = index;
    rest.next = block.next;
    if (block.next != kNoBlock) { blocks_[block.next].previous = rest_index; }
    block.next = rest_index;
    block.size = mapped;
    list.insert_unmapped(rest.address, rest_index);
  }
  merge(index, blocks_[index].previous);
  merge(index, blocks_[index].next);
  insert_free(index);
  counters.reserved_bytes.increase(list.small, static_cast<std::int64_t>(mapped));
  ++counters.num_device_alloc;
  record(AllocatorAction::segment_map, address, mapped, blocks_[index].list);
  return true;
}

/// Unmaps the pages that lie wholly in a free block; `index` is the unmapped part afterwards, if there is one.
MAXBATCH_INLINE void AllocatorState::unmap(BlockIndex index) {
  auto const& segment = expandable_[blocks_[index].expandable - 1];
  auto const block = blocks_[index];
  auto const offset = block.address - segment.address;
  auto const begin = rounded_up(offset, segment.page);
  auto const end = (offset + block.size) / segment.page * segment.page;
  if (begin >= end) { return; }
  auto const size = end - begin;
  auto const address = segment.address + begin;
  auto& list = pools_.list(block.list);
  list.free.erase(block.size, block.address);
  auto const keep = [&](DeviceAddress from, std::uint64_t bytes, BlockIndex previous, BlockIndex next) {
    auto const kept = blocks_.add();
    auto& part = blocks_[kept];
    part.address = from;
    part.size = bytes;
    part.list = block.list;
    part.small = block.small;
    part.expandable = block.expandable;
    part.previous = previous;
    part.next = next;
    if (previous != kNoBlock) { blocks_[previous].next = kept; }
    if (next != kNoBlock) { blocks_[next].previous = kept; }
    insert_free(kept);
  };
  if (begin > offset) { keep(block.address, begin - offset, block.previous, index); }
  if (offset + block.size > end) { keep(address + size, offset + block.size - end, index, blocks_[index].next); }
  blocks_[index].address = address;
  blocks_[index].size = size;
  blocks_[index].mapped = false;
  merge(index, blocks_[index].previous);
  merge(index, blocks_[index].next);
  list.insert_unmapped(blocks_[index].address, index);
  device_used_ -= size;
  counters.reserved_bytes.decrease(list.small, static_cast<std::int64_t>(size));
  ++counters.num_device_free;
  auto const private_pool = pools_.pool(list.pool).private_pool;
  if (private_pool >= 0) { --pools_.private_pool(private_pool).device_segments; }
  record(AllocatorAction::segment_unmap, address, size, block.list);
}

/// Of an unmapped block that is all of its segment.
MAXBATCH_INLINE void AllocatorState::remove_expandable(BlockIndex index) {
  auto const& block = blocks_[index];
  expandable_[block.expandable - 1].exists = false;
  pools_.list(block.list).erase_unmapped(block.address);
  blocks_.remove(index);
}

}  // namespace MAXBATCH_ABI_NAMESPACE
}  // namespace maxbatch::detail
