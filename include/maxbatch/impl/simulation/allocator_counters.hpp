#pragma once

#include <maxbatch/config.hpp>
#include <maxbatch/simulation/allocator_statistics.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

namespace maxbatch::detail {
inline namespace MAXBATCH_ABI_NAMESPACE {

/// A statistic without what follows from the rest: freed is allocated less what remained.
struct Counter {
  std::int64_t current = 0;
  std::int64_t peak = 0;
  std::int64_t allocated = 0;
  std::int64_t base = 0;  // `current` when the sums were reset

  void increase(std::int64_t amount) {
    current += amount;
    peak = std::max(peak, current);
    allocated += amount;
  }
  void decrease(std::int64_t amount) { current -= amount; }
  void reset_sums() {
    allocated = 0;
    base = current;
  }
  AllocatorStatistic statistic() const { return {current, peak, allocated, base + allocated - current}; }
};

/// Both pools, and the peak of their sum, whose other numbers follow.
struct PoolCounter {
  std::array<Counter, 2> pools;  // [0]: large
  std::int64_t current = 0;
  std::int64_t peak = 0;

  void increase(bool small, std::int64_t amount) {
    pools[static_cast<std::size_t>(small)].increase(amount);
    current += amount;
    peak = std::max(peak, current);
  }
  void decrease(bool small, std::int64_t amount) {
    pools[static_cast<std::size_t>(small)].decrease(amount);
    current -= amount;
  }
  void change(bool small, std::int64_t amount) { amount > 0 ? increase(small, amount) : decrease(small, -amount); }
  void reset_peak() {
    for (auto& pool : pools) { pool.peak = pool.current; }
    peak = current;
  }
  void reset_sums() {
    for (auto& pool : pools) { pool.reset_sums(); }
  }
  AllocatorPoolStatistic statistic() const {
    AllocatorPoolStatistic all;
    all.large_pool = pools[0].statistic();
    all.small_pool = pools[1].statistic();
    all.aggregate = {current, peak, all.large_pool.allocated + all.small_pool.allocated,
                     all.large_pool.freed + all.small_pool.freed};
    return all;
  }
};

struct AllocatorCounters {
  PoolCounter allocation;
  PoolCounter allocated_bytes;
  PoolCounter active;
  PoolCounter active_bytes;
  PoolCounter requested_bytes;
  PoolCounter inactive_split;
  PoolCounter inactive_split_bytes;
  PoolCounter segment;
  PoolCounter reserved_bytes;
  Counter oversize_allocations;
  Counter oversize_segments;
  std::int64_t num_alloc_retries = 0;
  std::int64_t num_ooms = 0;
  std::int64_t num_sync_all_streams = 0;
  std::int64_t num_device_alloc = 0;
  std::int64_t num_device_free = 0;

  template <typename Visit>
  void for_each_pool_counter(Visit visit) {
    for (auto* counter : {&allocation, &allocated_bytes, &active, &active_bytes, &requested_bytes, &inactive_split,
                          &inactive_split_bytes, &segment, &reserved_bytes}) {
      visit(*counter);
    }
  }
  void reset_peaks() {
    for_each_pool_counter([](PoolCounter& counter) { counter.reset_peak(); });
    oversize_allocations.peak = oversize_allocations.current;
    oversize_segments.peak = oversize_segments.current;
  }
  void reset_sums() {
    for_each_pool_counter([](PoolCounter& counter) { counter.reset_sums(); });
    oversize_allocations.reset_sums();
    oversize_segments.reset_sums();
    num_alloc_retries = num_ooms = num_sync_all_streams = num_device_alloc = num_device_free = 0;
  }
  AllocatorStatistics statistics() const {
    AllocatorStatistics all;
    all.allocation = allocation.statistic();
    all.segment = segment.statistic();
    all.active = active.statistic();
    all.inactive_split = inactive_split.statistic();
    all.allocated_bytes = allocated_bytes.statistic();
    all.reserved_bytes = reserved_bytes.statistic();
    all.active_bytes = active_bytes.statistic();
    all.inactive_split_bytes = inactive_split_bytes.statistic();
    all.requested_bytes = requested_bytes.statistic();
    all.oversize_allocations = oversize_allocations.statistic();
    all.oversize_segments = oversize_segments.statistic();
    all.num_alloc_retries = num_alloc_retries;
    all.num_ooms = num_ooms;
    all.num_sync_all_streams = num_sync_all_streams;
    all.num_device_alloc = num_device_alloc;
    all.num_device_free = num_device_free;
    return all;
  }
};

}  // namespace MAXBATCH_ABI_NAMESPACE
}  // namespace maxbatch::detail
