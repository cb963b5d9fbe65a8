#pragma once

#include "memory_sources.hpp"

#include <array>

namespace maxbatch::dry {

/// What the dry card's library and the allocator watch have in common. The watch is a library of its own, because it knows
/// LibTorch (src/allocator_watch/): it sees the blocks that LibTorch's caching allocator hands out, which the driver does not.

/// Scratch that the calling thread is about to allocate.
struct ExpectedScratch {
  std::array<ScratchAnswer, 4> answer{};
  int count = 0;
};

/// Filled in by the library, completed by the watch.
struct AllocatorWatchBoard {
  std::array<AllocatorRecord*, ProcessRecord::kDevices> record{};
  ProcessRecord* process = nullptr;
  /// Null: nobody announces scratch, as on a real card.
  ExpectedScratch* (*expected_of_this_thread)() = nullptr;
  /// The watch's: scratch of the program begins at `memory`.
  void (*scratch_is_at)(int device, ScratchAnswer const& answer, void const* memory) = nullptr;
};

/// The watch's only entry point. False: this LibTorch's allocator cannot be watched, or is not initialised yet.
using StartAllocatorWatch = bool (*)(AllocatorWatchBoard* board);
constexpr char const* kStartAllocatorWatch = "maxbatch_start_allocator_watch";

/// Loads the watch, where the process has LibTorch's allocator and nobody has loaded it yet. Cheap once that is settled;
/// called by whoever takes memory from a card. A second thread does not wait for the first: both may hold locks of the
/// allocator that the watch needs.
void start_allocator_watch();

}  // namespace maxbatch::dry
