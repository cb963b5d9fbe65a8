#pragma once

#include <maxbatch/bytes.hpp>
#include <maxbatch/config.hpp>
#include <maxbatch/impl/simulation/allocator_state.hpp>
#include <maxbatch/simulation/allocator_event.hpp>
#include <maxbatch/simulation/allocator_options.hpp>
#include <maxbatch/simulation/allocator_settings.hpp>
#include <maxbatch/simulation/allocator_statistics.hpp>
#include <maxbatch/simulation/device_address.hpp>
#include <maxbatch/simulation/device_address_space.hpp>
#include <maxbatch/simulation/invalid_allocator_call.hpp>
#include <maxbatch/simulation/refused_request.hpp>
#include <maxbatch/simulation/simulated_segment.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace maxbatch {
inline namespace MAXBATCH_ABI_NAMESPACE {

/// LibTorch 2.11's CUDACachingAllocator of one device, to the byte: which block serves a request, what is bought, split,
/// merged, given back and refused, in which order, with every statistic. A value: a copy continues on its own, cheaply
/// enough for a search that tries many ways on from one point.
/// What it takes no account of: the driver's other users (SimulatedDevice::outside_memory), free-memory callbacks, and
/// several devices (one simulator each).
/// Units: bytes.  Threads: not thread-safe; copies are independent.
class CachingAllocatorSimulator {
 public:
  /// Throws: InvalidAllocatorSettings for settings that no string could give.
  explicit CachingAllocatorSimulator(AllocatorOptions const& options = {}, DeviceAddressSpace addresses = {});

  // ---- What a program does
  /// Null when out of memory (`refused_request` tells more), and for 0 bytes, which never reach the allocator.
  BlockId allocate(Bytes requested, StreamHandle stream = kDefaultStream);
  /// The same inside a private pool, as one line of a recording says; the pool is made if need be. Events are not looked
  /// at and nothing is flushed, since a capture is in progress at that moment.
  BlockId allocate(Bytes requested, StreamHandle stream, PrivatePoolId pool);
  /// The program lets go. Free at once, or when the streams that used it are done.
  /// Throws: InvalidAllocatorCall when the program does not hold the block.
  void free(BlockId block);
  /// Another stream uses the block; its own stream does not matter.
  void record_stream(BlockId block, StreamHandle stream);
  /// All that was recorded on the stream is done, as after cudaStreamSynchronize. The next request notices.
  void synchronise(StreamHandle stream);
  void synchronise();
  /// torch::cuda::empty_cache, of one private pool or of all.
  void empty_cache(PrivatePoolId pool = {});

  // ---- What a recording says: a free in its two halves
  /// The program lets go; the block becomes free when `complete_free` says so or a flush waits for it.
  void request_free(BlockId block);
  /// False when a flush was earlier; nothing happens then.
  bool complete_free(BlockId block);

  // ---- Private pools: graph captures and MemPool
  /// Requests of `stream` (none: of all) are served from the pool until `end_allocate_to_pool`; the last begun comes first.
  void begin_allocate_to_pool(PrivatePoolId pool, std::optional<StreamHandle> stream = std::nullopt);
  void end_allocate_to_pool(PrivatePoolId pool);
  /// What begin_allocate_to_pool counted up. At 0 the next flush gives back what is free in it.
  void release_pool(PrivatePoolId pool);
  void create_or_incref_pool(PrivatePoolId pool);
  void set_use_on_oom(PrivatePoolId pool, bool use);
  void set_no_split(PrivatePoolId pool);
  int pool_use_count(PrivatePoolId pool) const;

  // ---- Limit and settings: at any time, for what comes after
  /// Reserved bytes never exceed it (but for up to a page of expandable segments). None: what the device has.
  void set_limit(std::optional<Bytes> limit);
  std::optional<Bytes> limit() const;
  /// As LibTorch computes it: a limit of floor(fraction x total memory), none for 1.
  void set_memory_fraction(double fraction);
  void set_settings(AllocatorSettings const& settings);
  AllocatorSettings const& settings() const;
  SimulatedDevice const& device() const;

  // ---- What there is
  AllocatorStatistics statistics() const;
  Bytes allocated_bytes() const;
  Bytes reserved_bytes() const;
  Bytes allocated_peak() const;
  Bytes reserved_peak() const;
  void reset_peak_statistics();
  void reset_accumulated_statistics();
  /// Of the last request that failed.
  std::optional<RefusedRequest> const& refused_request() const;

  bool holds(BlockId block) const;  // allocated, not merely awaiting events
  DeviceAddress address_of(BlockId block) const;
  Bytes size_of(BlockId block) const;
  /// By address; walks over all blocks.
  std::vector<SimulatedSegment> segments() const;

  DeviceAddressSpace& addresses();
  DeviceAddressSpace const& addresses() const;

  // ---- The history
  void record_events(bool record);
  std::vector<AllocatorEvent> const& events() const;
  std::vector<AllocatorEvent> take_events();

  /// What is wrong with the state, in words; empty when nothing is. Looks at everything.
  std::string broken_invariant() const;

 private:
  detail::AllocatorState state_;
};

}  // namespace MAXBATCH_ABI_NAMESPACE
}  // namespace maxbatch

#if !defined(MAXBATCH_COMPILED_LIB)
#include <maxbatch/impl/simulation/caching_allocator_simulator_inl.hpp>
#endif
