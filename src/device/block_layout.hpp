#pragma once

#include "allocator_event.hpp"
#include <maxbatch/simulation/allocation_trace.hpp>

#include <cstdint>
#include <functional>
#include <map>
#include <utility>
#include <vector>

namespace maxbatch::detail {

/// Which blocks a caching allocator has, followed event by event.
///
/// Events say what was requested; how large the block is that was handed out (rounded up, or a whole free block whose
/// rest is too small to be of use) follows from where the allocator put it and from its published rules, so the
/// allocator's own byte counts come out exactly. Nothing is predicted here: placement is the allocator's.
///
/// Source: LibTorch 2.11, the rules of c10/core/AllocatorConfig.h; the trace's order of events.
class BlockLayout {
 public:
  struct Rules {
    std::function<std::int64_t(std::int64_t requested)> rounded;
    std::int64_t largest_split = 0;  ///< max_split_size: blocks of this and more are never split
    bool expandable_segments = false;
  };

  /// LibTorch's words; all in bytes, at this moment.
  struct Totals {
    std::int64_t requested = 0;
    std::int64_t allocated = 0;
    std::int64_t active = 0;
    std::int64_t reserved = 0;
  };

  explicit BlockLayout(Rules rules) : rules_(std::move(rules)) {}
  BlockLayout(Rules rules, std::vector<TraceSegment> const& segments);

  void apply(AllocatorEvent const& event);

  Totals const& totals() const noexcept { return totals_; }
  /// Of blocks that were handed out by an event (not there from the beginning) and not let go of.
  std::int64_t handed_out() const noexcept { return handed_out_; }
  /// An event did not fit what was known: somebody's own allocator in a pool, or events that were missed.
  bool is_consistent() const noexcept { return consistent_; }

 private:
  struct Block {
    std::int64_t size = 0;
    std::int64_t requested = 0;
    TraceBlock::State state = TraceBlock::State::inactive;
    bool begins_segment = false;
    bool from_event = false;
  };
  using Blocks = std::map<std::uint64_t, Block>;

  void hand_out(std::uint64_t address, std::int64_t requested);
  void let_go(std::uint64_t address);
  void complete_free(std::uint64_t address);
  void add_free(std::uint64_t address, std::int64_t size, bool begins_segment);
  void remove_free(std::uint64_t address, std::int64_t size);
  void merge_with_neighbours(Blocks::iterator block);
  Blocks::iterator find(std::uint64_t address, TraceBlock::State state);
  bool is_split(std::int64_t block, std::int64_t rounded) const;

  Rules rules_;
  Blocks blocks_;
  Totals totals_;
  std::int64_t handed_out_ = 0;
  bool consistent_ = true;
};

}  // namespace maxbatch::detail
