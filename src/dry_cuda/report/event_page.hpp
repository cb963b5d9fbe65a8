#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace maxbatch::dry {

/// One event of LibTorch's caching allocator, or the end of a training step between two of them.
struct WatchedEvent {
  enum class Kind : std::uint32_t {
    none,  ///< not written (yet)
    alloc,
    free_requested,
    free_completed,
    segment_alloc,
    segment_free,
    segment_map,
    segment_unmap,
    out_of_memory,
    step_end  ///< `size` is the StepMark by which it was seen
  };

  std::uint64_t address = 0;
  std::int64_t size = 0;
  std::uint64_t stream = 0;
  std::uint32_t pool_first = 0;
  std::uint32_t pool_second = 0;
  std::atomic<Kind> kind = Kind::none;  ///< written last
};

/// What LibTorch's allocator did in a process of a program, from its first request for memory on, in memory that the launcher
/// shares with it: a process that is killed has still told everything up to then. All zeros but `magic` at first, so that pages
/// which nobody writes take no memory. Of one process and one device; that there were others is told.
struct EventPage {
  static constexpr std::size_t kEvents = std::size_t{1} << 18;  // three steps of a Swin-L are 22,000
  static constexpr std::uint64_t kMagic = 0x3165766578616d6d;   // changes with the layout

  std::uint64_t magic;
  std::atomic<std::int32_t> process;   ///< whose events these are; 0: nobody's
  std::atomic<std::int32_t> is_mixed;  ///< 1: another process, or another device than the first, has events, too
  std::atomic<std::uint64_t> written;  ///< may exceed kEvents
  std::array<char, 256> settings;      ///< of the allocator
  std::int64_t total_bytes;            ///< of the device
  std::int64_t usable_bytes;           ///< what it had for the allocator at the end of the latest step; 0: not known
  std::int32_t multiprocessors;
  std::int32_t threads_per_multiprocessor;
  std::array<WatchedEvent, kEvents> event;
};

}  // namespace maxbatch::dry
