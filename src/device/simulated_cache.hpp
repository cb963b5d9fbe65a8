#pragma once

#include <maxbatch/bytes.hpp>
#include <maxbatch/simulation/allocator_settings.hpp>
#include <maxbatch/simulation/caching_allocator_simulator.hpp>

#include <cstddef>
#include <cstdint>

namespace maxbatch::detail {

/// The caching allocator that a card would have, as the accountant of memory that the CPU's allocator really hands out:
/// it decides what fits, and its segments are what is reserved. Knows no LibTorch.
/// Threads: not thread-safe.
class SimulatedCache {
 public:
  /// Throws: InvalidAllocatorSettings.
  explicit SimulatedCache(AllocatorSettings const& settings);

  /// On reserved bytes, from the next request on.
  void set_limit(Bytes limit);
  /// Null: out of memory, after a flush; `refusal` tells more.
  BlockId allocate(std::int64_t requested);
  void free(BlockId block);
  /// torch::cuda::empty_cache.
  void flush();

  Bytes size_of(BlockId block) const { return simulator_.size_of(block); }
  Bytes allocated() const { return simulator_.allocated_bytes(); }
  Bytes reserved() const { return simulator_.reserved_bytes(); }
  /// Flushes that were made for a request, those that did not help included.
  std::int64_t retries() const { return simulator_.statistics().num_alloc_retries; }
  RefusedRequest const& refusal() const { return *simulator_.refused_request(); }
  AllocatorSettings const& settings() const { return simulator_.settings(); }
  std::uint64_t layout_fingerprint() const;

 private:
  CachingAllocatorSimulator simulator_;
};

}  // namespace maxbatch::detail
