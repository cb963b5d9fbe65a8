#include "block_layout.hpp"

#include <iterator>

namespace maxbatch::detail {
namespace {

// kMinBlockSize and kSmallSize of c10/core/AllocatorConfig.h, which this file does without.
constexpr std::int64_t kSmallestBlock = 512;
constexpr std::int64_t kLargestSmallBlock = std::int64_t{1} << 20;

}  // namespace

BlockLayout::BlockLayout(Rules rules, std::vector<TraceSegment> const& segments) : rules_(std::move(rules)) {
  for (auto const& segment : segments) {
    bool begins = !segment.expandable;
    for (auto const& known : segment.blocks) {
      Block block;
      block.size = known.size;
      block.state = known.state;
      block.begins_segment = begins;
      begins = false;
      if (known.state != TraceBlock::State::inactive) {
        block.requested = known.requested_size;
        totals_.requested += known.requested_size;
        totals_.active += known.size;
      }
      if (known.state == TraceBlock::State::allocated) { totals_.allocated += known.size; }
      totals_.reserved += known.size;
      blocks_[known.address] = block;
    }
  }
}

void BlockLayout::apply(AllocatorEvent const& event) {
  switch (event.action) {
    case TraceAction::alloc: return hand_out(event.address, event.size);
    case TraceAction::free_requested: return let_go(event.address);
    case TraceAction::free_completed: return complete_free(event.address);
    case TraceAction::segment_alloc: return add_free(event.address, event.size, /*begins_segment=*/true);
    case TraceAction::segment_map: return add_free(event.address, event.size, /*begins_segment=*/false);
    case TraceAction::segment_free:
    case TraceAction::segment_unmap: return remove_free(event.address, event.size);
    case TraceAction::oom:
    case TraceAction::snapshot:
    case TraceAction::user_defined: return;
  }
}

void BlockLayout::hand_out(std::uint64_t address, std::int64_t requested) {
  auto const found = find(address, TraceBlock::State::inactive);
  auto const rounded = rules_.rounded(requested);
  if (found == blocks_.end() || found->second.size < rounded) {
    consistent_ = false;
    return;
  }
  auto& block = found->second;
  if (is_split(block.size, rounded)) {
    Block rest;
    rest.size = block.size - rounded;
    blocks_.emplace_hint(std::next(found), address + static_cast<std::uint64_t>(rounded), rest);
    block.size = rounded;
  }
  block.requested = requested;
  block.state = TraceBlock::State::allocated;
  block.from_event = true;
  totals_.requested += requested;
  totals_.allocated += block.size;
  totals_.active += block.size;
  handed_out_ += block.size;
}

void BlockLayout::let_go(std::uint64_t address) {
  auto const found = find(address, TraceBlock::State::allocated);
  if (found == blocks_.end()) {
    consistent_ = false;
    return;
  }
  found->second.state = TraceBlock::State::pending_free;
  totals_.allocated -= found->second.size;
  if (found->second.from_event) { handed_out_ -= found->second.size; }
}

void BlockLayout::complete_free(std::uint64_t address) {
  auto const found = find(address, TraceBlock::State::pending_free);
  if (found == blocks_.end()) {
    consistent_ = false;
    return;
  }
  auto& block = found->second;
  totals_.requested -= block.requested;
  totals_.active -= block.size;
  block.state = TraceBlock::State::inactive;
  block.requested = 0;
  block.from_event = false;
  merge_with_neighbours(found);
}

void BlockLayout::add_free(std::uint64_t address, std::int64_t size, bool begins_segment) {
  Block block;
  block.size = size;
  block.begins_segment = begins_segment;
  auto const [added, is_new] = blocks_.emplace(address, block);
  if (!is_new) {
    consistent_ = false;
    return;
  }
  totals_.reserved += size;
  merge_with_neighbours(added);
}

void BlockLayout::remove_free(std::uint64_t address, std::int64_t size) {
  auto found = blocks_.upper_bound(address);
  if (found == blocks_.begin()) {
    consistent_ = false;
    return;
  }
  --found;
  auto const begin = found->first;
  auto const whole = found->second;
  auto const before = static_cast<std::int64_t>(address - begin);
  auto const after = whole.size - before - size;
  if (whole.state != TraceBlock::State::inactive || after < 0) {
    consistent_ = false;
    return;
  }
  blocks_.erase(found);
  totals_.reserved -= size;
  Block rest;
  if (before > 0) {
    rest.size = before;
    rest.begins_segment = whole.begins_segment;
    blocks_.emplace(begin, rest);
  }
  if (after > 0) {
    rest.size = after;
    rest.begins_segment = false;
    blocks_.emplace(address + static_cast<std::uint64_t>(size), rest);
  }
}

void BlockLayout::merge_with_neighbours(Blocks::iterator block) {
  auto const joins = [](Blocks::value_type const& left, Blocks::value_type const& right) {
    return left.second.state == TraceBlock::State::inactive && right.second.state == TraceBlock::State::inactive &&
           !right.second.begins_segment && left.first + static_cast<std::uint64_t>(left.second.size) == right.first;
  };
  if (auto const next = std::next(block); next != blocks_.end() && joins(*block, *next)) {
    block->second.size += next->second.size;
    blocks_.erase(next);
  }
  if (block != blocks_.begin()) {
    if (auto const previous = std::prev(block); joins(*previous, *block)) {
      previous->second.size += block->second.size;
      blocks_.erase(block);
    }
  }
}

BlockLayout::Blocks::iterator BlockLayout::find(std::uint64_t address, TraceBlock::State state) {
  auto const found = blocks_.find(address);
  return found != blocks_.end() && found->second.state == state ? found : blocks_.end();
}

bool BlockLayout::is_split(std::int64_t block, std::int64_t rounded) const {
  auto const rest = block - rounded;
  if (rounded <= kLargestSmallBlock || rules_.expandable_segments) { return rest >= kSmallestBlock; }
  return rounded < rules_.largest_split && rest > kLargestSmallBlock;
}

}  // namespace maxbatch::detail
