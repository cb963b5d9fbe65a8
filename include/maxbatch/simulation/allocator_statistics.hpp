#pragma once

#include <maxbatch/bytes.hpp>
#include <maxbatch/config.hpp>

#include <cstdint>

namespace maxbatch {
inline namespace MAXBATCH_ABI_NAMESPACE {

/// One number of the allocator's over time: a count or bytes.
struct AllocatorStatistic {
  std::int64_t current = 0;
  std::int64_t peak = 0;       // since the last reset of peaks
  std::int64_t allocated = 0;  // the sum of all increases
  std::int64_t freed = 0;      // the sum of all decreases

  friend bool operator==(AllocatorStatistic const& a, AllocatorStatistic const& b) {
    return a.current == b.current && a.peak == b.peak && a.allocated == b.allocated && a.freed == b.freed;
  }
  friend bool operator!=(AllocatorStatistic const& a, AllocatorStatistic const& b) { return !(a == b); }
};

struct AllocatorPoolStatistic {
  AllocatorStatistic aggregate;
  AllocatorStatistic small_pool;
  AllocatorStatistic large_pool;

  friend bool operator==(AllocatorPoolStatistic const& a, AllocatorPoolStatistic const& b) {
    return a.aggregate == b.aggregate && a.small_pool == b.small_pool && a.large_pool == b.large_pool;
  }
  friend bool operator!=(AllocatorPoolStatistic const& a, AllocatorPoolStatistic const& b) { return !(a == b); }
};

/// The fields of LibTorch's DeviceStats under their names there.
struct AllocatorStatistics {
  AllocatorPoolStatistic allocation;       // blocks that the program holds
  AllocatorPoolStatistic segment;          // pieces bought by cudaMalloc; mapped pages do not count
  AllocatorPoolStatistic active;           // blocks held, or freed and still waiting for another stream
  AllocatorPoolStatistic inactive_split;   // free blocks that have neighbours; not in expandable segments
  AllocatorPoolStatistic allocated_bytes;  // of whole blocks: rounded requests, and what was not split off
  AllocatorPoolStatistic reserved_bytes;   // segments and mapped pages
  AllocatorPoolStatistic active_bytes;
  AllocatorPoolStatistic inactive_split_bytes;
  AllocatorPoolStatistic requested_bytes;   // before rounding, of active blocks
  AllocatorStatistic oversize_allocations;  // of blocks of at least max_split_size
  AllocatorStatistic oversize_segments;
  std::int64_t num_alloc_retries = 0;  // purchases tried again after a flush
  std::int64_t num_ooms = 0;
  std::int64_t num_sync_all_streams = 0;  // flushes that waited for events
  std::int64_t num_device_alloc = 0;      // segments bought and page ranges mapped
  std::int64_t num_device_free = 0;

  friend bool operator==(AllocatorStatistics const& a, AllocatorStatistics const& b) {
    return a.allocation == b.allocation && a.segment == b.segment && a.active == b.active &&
           a.inactive_split == b.inactive_split && a.allocated_bytes == b.allocated_bytes &&
           a.reserved_bytes == b.reserved_bytes && a.active_bytes == b.active_bytes &&
           a.inactive_split_bytes == b.inactive_split_bytes && a.requested_bytes == b.requested_bytes &&
           a.oversize_allocations == b.oversize_allocations && a.oversize_segments == b.oversize_segments &&
           a.num_alloc_retries == b.num_alloc_retries && a.num_ooms == b.num_ooms &&
           a.num_sync_all_streams == b.num_sync_all_streams && a.num_device_alloc == b.num_device_alloc &&
           a.num_device_free == b.num_device_free;
  }
  friend bool operator!=(AllocatorStatistics const& a, AllocatorStatistics const& b) { return !(a == b); }
};

}  // namespace MAXBATCH_ABI_NAMESPACE
}  // namespace maxbatch
