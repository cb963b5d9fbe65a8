#pragma once

#include <maxbatch/impl/simulation/trace_source.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace maxbatch {
namespace detail {
inline namespace MAXBATCH_ABI_NAMESPACE {

/// What the allocator holds between two events, as far as the events tell: mapped ranges, and the blocks that are held.
/// Steps forwards and backwards.
class TraceState {
 public:
  struct Held {
    std::int64_t requested_size = 0;
    std::uint16_t stream = 0;
    std::uint8_t pool = 0;
    bool pending_free = false;
  };
  struct Range {
    std::int64_t size = 0;
    std::uint16_t stream = 0;
    std::uint8_t pool = 0;
    bool small = false;
    bool expandable = false;
  };

  std::map<DeviceAddress, Range> const& ranges() const { return ranges_; }
  std::map<DeviceAddress, Held> const& held() const { return held_; }
  bool is_pending(DeviceAddress address) const {
    auto const found = held_.find(address);
    return found != held_.end() && found->second.pending_free;
  }

  /// Segments as a snapshot lists them.
  void add(TraceSegment const& segment) {
    ranges_[segment.address] = {segment.size, segment.stream, segment.pool, segment.small, segment.expandable};
    for (auto const& block : segment.blocks) {
      if (block.state == TraceBlock::State::inactive) { continue; }
      held_[block.address] = {block.requested_size, segment.stream, segment.pool,
                              block.state == TraceBlock::State::pending_free};
    }
  }

  /// What is wrong with the event; null: nothing, and it has happened.
  char const* step(TraceEvent const& event) {
    switch (event.action) {
      case TraceAction::alloc: return hold(event, /*pending_free=*/false);
      case TraceAction::free_requested: return change_pending(event, true);
      case TraceAction::free_completed: return let_go(event);
      case TraceAction::segment_alloc: return add_range(event, /*expandable=*/false);
      case TraceAction::segment_map: return add_range(event, /*expandable=*/true);
      case TraceAction::segment_free: return remove_range(event, /*whole=*/true);
      case TraceAction::segment_unmap: return remove_range(event, /*whole=*/false);
      case TraceAction::oom:
      case TraceAction::snapshot:
      case TraceAction::user_defined: break;
    }
    return nullptr;
  }

  /// The same in the other direction: the state before the event.
  char const* step_back(TraceEvent const& event) {
    switch (event.action) {
      case TraceAction::alloc: return let_go(event);
      case TraceAction::free_requested: return change_pending(event, false);
      case TraceAction::free_completed: return hold(event, /*pending_free=*/true);
      case TraceAction::segment_alloc: return remove_range(event, /*whole=*/true);
      case TraceAction::segment_map: return remove_range(event, /*whole=*/false);
      case TraceAction::segment_free: return add_range(event, /*expandable=*/false);
      case TraceAction::segment_unmap: return add_range(event, /*expandable=*/true);
      case TraceAction::oom:
      case TraceAction::snapshot:
      case TraceAction::user_defined: break;
    }
    return nullptr;
  }

  /// As a snapshot would list them: neighbouring pages of one expandable segment together.
  std::vector<TraceSegment> segments() const {
    std::vector<TraceSegment> segments;
    for (auto const& [address, range] : ranges_) {
      auto const continues = !segments.empty() && range.expandable && segments.back().expandable &&
                             segments.back().address + static_cast<std::uint64_t>(segments.back().size) == address &&
                             segments.back().stream == range.stream && segments.back().pool == range.pool &&
                             segments.back().small == range.small;
      if (continues) {
        segments.back().size += range.size;
      } else {
        segments.push_back({address, range.size, range.stream, range.pool, range.small, range.expandable, {}});
      }
    }
    for (auto& segment : segments) { segment.blocks = blocks_of(segment); }
    return segments;
  }

 private:
  static constexpr std::int64_t kSmallestBlock = 512;
  static constexpr std::int64_t kLargestSmallBlock = std::int64_t{1} << 20;
  static constexpr std::int64_t kSmallSegment = std::int64_t{2} << 20;

  char const* hold(TraceEvent const& event, bool pending_free) {
    auto const [place, is_new] = held_.insert({event.address, {event.size, event.stream, event.pool, pending_free}});
    return is_new ? nullptr : "a block at this address is in use already";
  }
  char const* let_go(TraceEvent const& event) {
    return held_.erase(event.address) == 1 ? nullptr : "no block at this address is in use";
  }
  char const* change_pending(TraceEvent const& event, bool pending_free) {
    auto const found = held_.find(event.address);
    if (found == held_.end()) { return "no block at this address is in use"; }
    found->second.pending_free = pending_free;
    return nullptr;
  }

  char const* add_range(TraceEvent const& event, bool expandable) {
    auto const begin = event.address;
    auto const end = begin + static_cast<std::uint64_t>(event.size);
    auto const next = ranges_.lower_bound(begin);
    if (next != ranges_.end() && next->first < end) { return "the memory is the allocator's already"; }
    if (next != ranges_.begin()) {
      auto const before = std::prev(next);
      if (before->first + static_cast<std::uint64_t>(before->second.size) > begin) {
        return "the memory is the allocator's already";
      }
    }
    ranges_.emplace_hint(next, begin,
                         Range{event.size, event.stream, event.pool, event.size == kSmallSegment, expandable});
    return nullptr;
  }
  /// `whole`: exactly one range; else any part of neighbouring ones, of which the rest stays.
  char const* remove_range(TraceEvent const& event, bool whole) {
    constexpr auto const* not_held = "the allocator does not hold this memory";
    auto at = event.address;
    auto const end = at + static_cast<std::uint64_t>(event.size);
    if (whole) {
      auto const found = ranges_.find(at);
      if (found == ranges_.end() || found->second.size != event.size) { return not_held; }
      ranges_.erase(found);
      return nullptr;
    }
    while (at < end) {
      auto found = ranges_.upper_bound(at);
      if (found == ranges_.begin()) { return not_held; }
      --found;
      auto const range_begin = found->first;
      auto const range = found->second;
      auto const range_end = range_begin + static_cast<std::uint64_t>(range.size);
      if (range_end <= at) { return not_held; }
      ranges_.erase(found);
      if (range_begin < at) { put_back(range, range_begin, at); }
      if (end < range_end) { put_back(range, end, range_end); }
      at = std::min(end, range_end);
    }
    return nullptr;
  }
  void put_back(Range range, DeviceAddress begin, DeviceAddress end) {
    range.size = static_cast<std::int64_t>(end - begin);
    ranges_[begin] = range;
  }

  /// Events tell where blocks begin and what was requested; the rest follows from when the allocator splits: a free block
  /// of the large pool is never as small as 1 MiB, elsewhere never smaller than 512 bytes.
  std::vector<TraceBlock> blocks_of(TraceSegment const& segment) const {
    std::vector<TraceBlock> blocks;
    auto at = segment.address;
    auto const end = at + static_cast<std::uint64_t>(segment.size);
    auto const free_until = [&](DeviceAddress until) {
      if (at < until) {
        blocks.push_back({at, static_cast<std::int64_t>(until - at), 0, TraceBlock::State::inactive});
        at = until;
      }
    };
    for (auto held = held_.lower_bound(segment.address); held != held_.end() && held->first < end; ++held) {
      free_until(held->first);
      auto const following = std::next(held);
      auto const next = following != held_.end() ? std::min(following->first, end) : end;
      auto const room = static_cast<std::int64_t>(next - at);
      auto size = std::max(kSmallestBlock,
                           (held->second.requested_size + kSmallestBlock - 1) / kSmallestBlock * kSmallestBlock);
      auto const least_free = segment.small || segment.expandable ? kSmallestBlock : kLargestSmallBlock + 1;
      if (size > room || room - size < least_free) { size = room; }
      if (size <= 0) { continue; }
      blocks.push_back({at, size, held->second.requested_size,
                        held->second.pending_free ? TraceBlock::State::pending_free : TraceBlock::State::allocated});
      at += static_cast<std::uint64_t>(size);
    }
    free_until(end);
    return blocks;
  }

  std::map<DeviceAddress, Range> ranges_;
  std::map<DeviceAddress, Held> held_;
};

/// Where the history of `trace`, whose `final_segments` are known, does not begin at the beginning: what there was then.
/// Throws: TraceError.
inline std::vector<TraceSegment> initial_segments_of(AllocationTrace const& trace,
                                                     std::vector<TraceSegment> const& final_segments,
                                                     std::string const& name) {
  TraceState state;
  for (auto const& segment : final_segments) { state.add(segment); }
  for (auto i = trace.events.size(); i > 0; --i) {
    auto const& event = trace.events[i - 1];
    if (auto const* const wrong = state.step_back(event)) {
      fail_trace(name, "",
                 "device " + std::to_string(trace.device_index) +
                     "'s history contradicts the segments at its end: before event " + std::to_string(i - 1) + " (" +
                     std::string(to_string(event.action)) + " of " + std::to_string(event.size) + " bytes at " +
                     std::to_string(event.address) + "), " + wrong);
    }
  }
  return state.segments();
}

}  // namespace MAXBATCH_ABI_NAMESPACE
}  // namespace detail
}  // namespace maxbatch
