#pragma once

#include <maxbatch/config.hpp>
#include <maxbatch/simulation/device_address.hpp>

#include <cstdint>
#include <vector>

namespace maxbatch::detail {
inline namespace MAXBATCH_ABI_NAMESPACE {

using BlockIndex = std::uint32_t;
constexpr BlockIndex kNoBlock = 0;  // the first block of the table is nobody's

/// A piece of a segment.
struct Block {
  DeviceAddress address = 0;
  std::uint64_t size = 0;
  std::uint64_t requested = 0;
  BlockIndex previous = kNoBlock;  // neighbours in the segment
  BlockIndex next = kNoBlock;
  std::uint32_t generation = 0;      // counted up whenever it is handed out
  std::uint32_t expandable = 0;      // its expandable segment's number plus one; 0: a segment of cudaMalloc's
  std::uint32_t age_base = 0;        // searches of its pool until it became free
  std::uint32_t uses = 0;            // the first of its uses by other streams; 0: none
  std::uint16_t awaited_events = 0;  // and completions from outside
  std::uint16_t list = 0;            // pool and stream
  bool small = false;                // of its list
  bool allocated = false;
  bool mapped = true;
  bool awaits_outside = false;
  bool live = false;  // whether it is a block of a segment at all

  bool is_split() const { return previous != kNoBlock || next != kNoBlock; }
  /// Nobody holds it and no stream may still use it.
  bool is_free() const { return !allocated && awaited_events == 0 && uses == 0; }
};

/// Blocks by number; numbers are used again.
class BlockTable {
 public:
  BlockTable() : blocks_(1) {}

  Block& operator[](BlockIndex index) { return blocks_[index]; }
  Block const& operator[](BlockIndex index) const { return blocks_[index]; }
  BlockIndex end() const { return static_cast<BlockIndex>(blocks_.size()); }

  BlockIndex add() {
    if (unused_ == kNoBlock) {
      blocks_.emplace_back();
      blocks_.back().live = true;
      return static_cast<BlockIndex>(blocks_.size() - 1);
    }
    auto const index = unused_;
    auto& block = blocks_[index];
    unused_ = block.next;
    auto const generation = block.generation;
    block = Block{};
    block.generation = generation;
    block.live = true;
    return index;
  }
  void remove(BlockIndex index) {
    auto& block = blocks_[index];
    block.live = false;
    block.allocated = false;
    block.next = unused_;
    unused_ = index;
  }

 private:
  std::vector<Block> blocks_;
  BlockIndex unused_ = kNoBlock;  // a chain through `next`
};

}  // namespace MAXBATCH_ABI_NAMESPACE
}  // namespace maxbatch::detail
