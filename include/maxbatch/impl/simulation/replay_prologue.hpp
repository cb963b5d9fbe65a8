#pragma once

#include <maxbatch/impl/simulation/allocation_sizes.hpp>
#include <maxbatch/impl/simulation/trace_source.hpp>
#include <maxbatch/simulation/caching_allocator_simulator.hpp>
#include <maxbatch/simulation/replay_program.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

namespace maxbatch {
namespace detail {
inline namespace MAXBATCH_ABI_NAMESPACE {

/// Requests that bring an empty allocator into a given state.
///
/// Segment after segment is filled from its low end, gaps included, so that the only free block there is to serve the next
/// request is the rest of the segment. Then what filled the gaps is freed. Pages of an expandable segment that are not
/// mapped are filled too, freed first and unmapped by emptying the cache.
class ReplayPrologue {
 public:
  ReplayPrologue(AllocationTrace const& trace, ReplayProgram& program, std::string const& name)
      : trace_(trace), program_(program), name_(name), rules_(program.settings) {}

  /// Appends to the program's prologue and purchases; the names of the blocks that live on, by address.
  std::unordered_map<DeviceAddress, std::uint32_t> build() {
    auto segments = trace_.initial_segments;
    // An expandable segment shows as several where pages in between are not mapped.
    std::stable_sort(segments.begin(), segments.end(), [](TraceSegment const& a, TraceSegment const& b) {
      auto const key = [](TraceSegment const& s) {
        return std::tuple(s.expandable, s.stream, s.pool, s.small, s.address);
      };
      return key(a) < key(b);
    });
    TraceSegment const* previous = nullptr;
    for (auto const& segment : segments) {
      if (segment.expandable) {
        if (previous != nullptr && continues(*previous, segment)) { fill_hole(*previous, segment); }
        fill_pieces(segment);
      } else {
        fill_segment(segment);
      }
      previous = &segment;
    }
    for (auto const& filler : hole_fillers_) { push(ReplayOperation::Kind::free, 0, filler); }
    if (!hole_fillers_.empty()) { push(ReplayOperation::Kind::empty_cache, 0, {}); }
    for (auto const& filler : gap_fillers_) { push(ReplayOperation::Kind::free, 0, filler); }
    program_.initial_segments = static_cast<std::int64_t>(segments.size());
    check(segments);
    return std::move(blocks_);
  }

 private:
  struct Filler {
    std::uint32_t block = 0;
    std::uint16_t stream = 0;
    std::uint8_t pool = 0;
  };
  // Of a card's memory, in blocks of at most 1 MiB: more is no honest hole.
  static constexpr std::size_t kMostFillers = 1000000;
  static constexpr std::int64_t kLargestHole = std::int64_t{1} << 38;

  static bool continues(TraceSegment const& a, TraceSegment const& b) {
    auto const end = a.address + static_cast<std::uint64_t>(a.size);
    return a.expandable && b.expandable && a.stream == b.stream && a.pool == b.pool && a.small == b.small &&
           b.address >= end && b.address - end < static_cast<std::uint64_t>(kLargestHole);
  }

  void push(ReplayOperation::Kind kind, std::int64_t size, Filler const& block) {
    program_.prologue.push_back({size, block.block, block.stream, block.pool, kind});
  }
  Filler allocate(TraceSegment const& segment, std::int64_t size) {
    Filler const block{program_.block_count++, segment.stream, segment.pool};
    push(ReplayOperation::Kind::allocate, size, block);
    return block;
  }
  /// Requests of the segment's kind that take `size` bytes together.
  void fill_gap(TraceSegment const& segment, std::int64_t size, std::vector<Filler>& fillers) {
    while (size > 0) {
      auto const piece = segment.small ? std::min(size, static_cast<std::int64_t>(kSmallSize)) : size;
      if (fillers.size() >= kMostFillers) { fail_trace(name_, "", "what existed before its history is too scattered"); }
      fillers.push_back(allocate(segment, piece));
      size -= piece;
    }
  }
  void fill_hole(TraceSegment const& before, TraceSegment const& after) {
    auto const hole = after.address - before.address - static_cast<std::uint64_t>(before.size);
    fill_gap(after, static_cast<std::int64_t>(hole), hole_fillers_);
  }

  void fill_pieces(TraceSegment const& segment) {
    for (auto const& block : segment.blocks) {
      if (block.state == TraceBlock::State::inactive) {
        fill_gap(segment, block.size, gap_fillers_);
      } else {
        blocks_[block.address] = allocate(segment, block.requested_size).block;
      }
    }
  }

  void fill_segment(TraceSegment const& segment) {
    auto const one_block = segment.blocks.size() == 1;
    auto const held = one_block && segment.blocks[0].state != TraceBlock::State::inactive;
    auto const buys_itself = held && segment_for(segment.blocks[0].requested_size) == segment.size;
    if (segment.small || buys_itself || (one_block && !held)) { return fill_pieces(segment); }
    // Bought by a request for all of it, whoever bought it then.
    auto const all = allocate(segment, segment.size);
    push(ReplayOperation::Kind::free, 0, all);
    fill_pieces(segment);
  }
  std::int64_t segment_for(std::int64_t requested) const {
    return static_cast<std::int64_t>(rules_.segment_for(rules_.rounded(static_cast<std::uint64_t>(requested))));
  }

  /// Runs what was built, compares with what was to be built, and learns which purchase has which recorded address.
  void check(std::vector<TraceSegment> const& wanted) {
    AllocatorOptions options;
    options.settings = program_.settings;
    options.device.total_memory = Bytes{std::int64_t{1} << 40};  // more than any device has
    options.record_events = true;
    CachingAllocatorSimulator simulator(options);
    simulator.set_limit(std::nullopt);
    std::vector<BlockId> blocks(program_.block_count);
    for (auto const& operation : program_.prologue) {
      auto& block = blocks[operation.block];
      switch (operation.kind) {
        case ReplayOperation::Kind::allocate:
          block =
              simulator.allocate(Bytes{operation.size}, trace_.streams[operation.stream], trace_.pools[operation.pool]);
          if (!block) { fail(); }
          break;
        case ReplayOperation::Kind::free: simulator.free(block); break;
        default: simulator.empty_cache(); break;
      }
    }
    match(simulator, wanted);
  }

  void match(CachingAllocatorSimulator& simulator, std::vector<TraceSegment> const& wanted) {
    using Kind = std::tuple<StreamHandle, std::uint64_t, std::uint64_t, bool>;
    std::map<DeviceAddress, SimulatedSegment> bought;                // by cudaMalloc
    std::map<Kind, std::vector<SimulatedSegment>> expandable_parts;  // ascending addresses
    for (auto const& segment : simulator.segments()) {
      for (auto& part : mapped_parts(segment)) {
        if (segment.is_expandable) {
          expandable_parts[{segment.stream, segment.pool.first, segment.pool.second, segment.is_large}].push_back(
              std::move(part));
        } else {
          bought.emplace(part.address, std::move(part));
        }
      }
    }
    auto const events = simulator.take_events();
    std::map<DeviceAddress, DeviceAddress> recorded_at;  // by the simulator's
    auto const pair_up = [&](SimulatedSegment const& built, TraceSegment const& segment) {
      if (!same(built, segment)) { fail(); }
      recorded_at[built.address] = segment.address;
    };
    // What was bought by cudaMalloc was bought in the order of `wanted`.
    auto segment = wanted.begin();
    for (auto const& event : events) {
      if (event.action != AllocatorAction::segment_alloc) { continue; }
      auto const part = bought.find(event.address);
      if (segment == wanted.end() || segment->expandable || part == bought.end()) { fail(); }
      pair_up(part->second, *segment++);
    }
    std::map<Kind, std::size_t> next;
    for (; segment != wanted.end(); ++segment) {
      auto const& pool = trace_.pools[segment->pool];
      Kind const kind{trace_.streams[segment->stream], pool.first, pool.second, !segment->small};
      auto const& parts = expandable_parts[kind];
      auto& place = next[kind];
      if (!segment->expandable || place >= parts.size()) { fail(); }
      pair_up(parts[place++], *segment);
    }
    if (recorded_at.size() != wanted.size()) { fail(); }
    add_purchases(events, recorded_at);
  }

  /// Without what is not mapped, as snapshots list segments.
  static std::vector<SimulatedSegment> mapped_parts(SimulatedSegment const& segment) {
    std::vector<SimulatedSegment> parts;
    auto continues = false;
    for (auto const& block : segment.blocks) {
      if (block.state == BlockState::unmapped) {
        continues = false;
        continue;
      }
      if (!continues) {
        parts.push_back(
            {block.address, Bytes{0}, segment.stream, segment.pool, segment.is_large, segment.is_expandable, {}});
      }
      continues = true;
      parts.back().size = parts.back().size + block.size;
      parts.back().blocks.push_back(block);
    }
    return parts;
  }

  static bool same(SimulatedSegment const& built, TraceSegment const& wanted) {
    if (built.size.count != wanted.size || built.blocks.size() != wanted.blocks.size()) { return false; }
    for (std::size_t i = 0; i < wanted.blocks.size(); ++i) {
      auto const is_held = built.blocks[i].state != BlockState::free;
      auto const should_be = wanted.blocks[i].state != TraceBlock::State::inactive;
      if (built.blocks[i].size.count != wanted.blocks[i].size || is_held != should_be) { return false; }
    }
    return true;
  }

  /// Whatever lies in a mapped part of the simulator lay at the same distance in the recorded one. Pages that were
  /// unmapped again take the place that follows from their neighbours.
  void add_purchases(std::vector<AllocatorEvent> const& events,
                     std::map<DeviceAddress, DeviceAddress> const& recorded_at) {
    for (auto const& event : events) {
      if (event.action != AllocatorAction::segment_alloc && event.action != AllocatorAction::segment_map) { continue; }
      auto found = recorded_at.upper_bound(event.address);
      if (found != recorded_at.begin()) { --found; }
      auto const moved = event.address - found->first + found->second;
      program_.purchases.push_back({moved, event.size});
    }
  }

  [[noreturn]] void fail() const {
    fail_trace(
        name_, "",
        "what existed before its history cannot be rebuilt under these settings: record from the beginning, with "
        "max_entries large enough, or give the settings it was recorded with");
  }

  AllocationTrace const& trace_;
  ReplayProgram& program_;
  std::string const& name_;
  SizeRules rules_;
  std::unordered_map<DeviceAddress, std::uint32_t> blocks_;
  std::vector<Filler> gap_fillers_;
  std::vector<Filler> hole_fillers_;
};

}  // namespace MAXBATCH_ABI_NAMESPACE
}  // namespace detail
}  // namespace maxbatch
