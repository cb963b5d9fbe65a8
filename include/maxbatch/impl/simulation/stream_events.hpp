#pragma once

#include <maxbatch/config.hpp>
#include <maxbatch/impl/simulation/block_table.hpp>
#include <maxbatch/impl/simulation/pool_table.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace maxbatch::detail {
inline namespace MAXBATCH_ABI_NAMESPACE {

/// Which other streams use a block: a chain per block, its first link in Block::uses.
class StreamUses {
 public:
  struct Use {
    StreamIndex stream = 0;
    bool in_capture = false;
    std::uint32_t next = 0;
  };

  /// A second use by the same stream is the same use.
  void add(Block& block, StreamIndex stream, bool in_capture) {
    for (auto use = block.uses; use != 0; use = uses_[use].next) {
      if (uses_[use].stream == stream) {
        uses_[use].in_capture = uses_[use].in_capture || in_capture;
        return;
      }
    }
    auto index = unused_;
    if (index == 0) {
      index = static_cast<std::uint32_t>(uses_.size());
      uses_.emplace_back();
    } else {
      unused_ = uses_[index].next;
    }
    uses_[index] = {stream, in_capture, block.uses};
    block.uses = index;
  }
  /// Takes all uses away from the block, calling `visit(stream, in_capture)` for each.
  template <typename Visit>
  void take(Block& block, Visit visit) {
    while (block.uses != 0) {
      auto const index = block.uses;
      auto const use = uses_[index];
      block.uses = use.next;
      uses_[index].next = unused_;
      unused_ = index;
      visit(use.stream, use.in_capture);
    }
  }

 private:
  std::vector<Use> uses_ = std::vector<Use>(1);
  std::uint32_t unused_ = 0;
};

/// Freed blocks whose memory a stream may still use, in the order in which the streams get there.
class EventQueues {
 public:
  void push(StreamIndex stream, BlockIndex block) {
    if (queues_.size() <= stream) { queues_.resize(stream + std::size_t{1}); }
    queues_[stream].blocks.push_back(block);
    ++waiting_;
  }
  void synchronise(StreamIndex stream) {
    if (stream < queues_.size()) { queues_[stream].done = queues_[stream].blocks.size(); }
  }
  void synchronise_all() {
    for (auto& queue : queues_) { queue.done = queue.blocks.size(); }
  }
  bool empty() const { return waiting_ == 0; }
  std::size_t stream_count() const { return queues_.size(); }

  /// The blocks whose turn has come on one stream, all or those that are done; they leave the queue.
  std::vector<BlockIndex> take(StreamIndex stream, bool all) {
    auto& queue = queues_[stream];
    auto const count = all ? queue.blocks.size() : queue.done;
    auto const end = queue.blocks.begin() + static_cast<std::ptrdiff_t>(count);
    std::vector<BlockIndex> taken(queue.blocks.begin(), end);
    queue.blocks.erase(queue.blocks.begin(), end);
    queue.done = 0;
    waiting_ -= count;
    return taken;
  }
  /// The same for those that `wanted` holds for, wherever they stand.
  template <typename Wanted>
  std::vector<BlockIndex> take_if(StreamIndex stream, Wanted wanted) {
    auto& queue = queues_[stream];
    std::vector<BlockIndex> taken;
    std::vector<BlockIndex> left;
    std::size_t done = 0;
    for (std::size_t i = 0; i < queue.blocks.size(); ++i) {
      auto const block = queue.blocks[i];
      if (wanted(block)) {
        taken.push_back(block);
      } else {
        left.push_back(block);
        done += i < queue.done ? 1 : 0;
      }
    }
    waiting_ -= taken.size();
    queue.blocks = std::move(left);
    queue.done = done;
    return taken;
  }

 private:
  struct Queue {
    std::vector<BlockIndex> blocks;
    std::size_t done = 0;
  };
  std::vector<Queue> queues_;  // by stream index
  std::size_t waiting_ = 0;
};

}  // namespace MAXBATCH_ABI_NAMESPACE
}  // namespace maxbatch::detail
