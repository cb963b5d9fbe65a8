#pragma once

#include <maxbatch/config.hpp>
#include <maxbatch/impl/simulation/allocation_sizes.hpp>
#include <maxbatch/impl/simulation/allocator_counters.hpp>
#include <maxbatch/impl/simulation/block_table.hpp>
#include <maxbatch/impl/simulation/pool_table.hpp>
#include <maxbatch/impl/simulation/stream_events.hpp>
#include <maxbatch/simulation/allocator_event.hpp>
#include <maxbatch/simulation/allocator_options.hpp>
#include <maxbatch/simulation/device_address_space.hpp>
#include <maxbatch/simulation/invalid_allocator_call.hpp>
#include <maxbatch/simulation/refused_request.hpp>
#include <maxbatch/simulation/simulated_segment.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace maxbatch::detail {
inline namespace MAXBATCH_ABI_NAMESPACE {

/// An address range that pages are mapped into; all its blocks are of one list.
struct ExpandableSegment {
  DeviceAddress address = 0;
  std::uint64_t size = 0;
  std::uint64_t page = 0;
  bool exists = false;
};

/// One request on its way through the attempts to serve it.
struct Request {
  std::uint64_t requested = 0;
  std::uint64_t size = 0;     // rounded
  std::uint64_t segment = 0;  // what would be bought for it
  ListIndex list = 0;
};

/// All that a CachingAllocatorSimulator knows, and what the allocator does with it.
/// Members in the order of LibTorch's attempts; bodies in *_inl.hpp beside this file.
class AllocatorState {
 public:
  AllocatorState(AllocatorOptions const& options, DeviceAddressSpace addresses);

  // allocation_inl.hpp: a request, from the search for a free block to the refusal
  BlockId allocate(std::uint64_t requested, StreamHandle stream);
  BlockId allocate_in(PrivatePoolId pool, std::uint64_t requested, StreamHandle stream);

  // deallocation_inl.hpp: frees and the events that they wait for
  void free(BlockId id);
  void request_free(BlockId id);
  bool complete_free(BlockId id);
  void record_stream(BlockId id, StreamHandle stream);
  void synchronise(StreamHandle stream);
  void synchronise_all() { events_.synchronise_all(); }

  // release_inl.hpp: what goes back to the driver
  void empty_cache(PrivatePoolId pool);

  // private_pools_inl.hpp
  void begin_allocate_to_pool(PrivatePoolId pool, std::optional<StreamHandle> stream);
  void end_allocate_to_pool(PrivatePoolId pool);
  void release_pool(PrivatePoolId pool);
  void create_or_incref_pool(PrivatePoolId pool);
  void set_use_on_oom(PrivatePoolId pool, bool use);
  void set_no_split(PrivatePoolId pool);
  int pool_use_count(PrivatePoolId pool) const;

  // inspection_inl.hpp
  std::vector<SimulatedSegment> segments() const;
  std::string broken_invariant() const;
  bool holds(BlockId id) const {
    return id && id.index < blocks_.end() && blocks_[id.index].allocated &&
           blocks_[id.index].generation == id.generation;
  }
  Block const& held(BlockId id) const {
    if (!holds(id)) { complain_about(id); }
    return blocks_[id.index];
  }

  void set_settings(AllocatorSettings const& settings);
  void set_limit(std::optional<Bytes> limit);

  AllocatorSettings settings;
  SimulatedDevice device;
  std::optional<Bytes> limit;
  DeviceAddressSpace addresses;
  AllocatorCounters counters;
  std::optional<RefusedRequest> refused;
  bool records_events = false;
  std::vector<AllocatorEvent> history;

 private:
  struct Capture {
    PrivatePoolId id;
    int private_pool = 0;
    std::optional<StreamHandle> stream;  // none: all
  };

  [[noreturn]] void complain_about(BlockId id) const;

  // allocation_inl.hpp
  PoolIndex pool_for(std::uint64_t size, StreamHandle stream) const;
  BlockIndex search(Request const& request);
  std::optional<FreeBlocks::Place> place_for(BlockList const& list, std::uint64_t size) const;
  BlockIndex buy(Request const& request);
  BlockIndex serve_from_fallback_pools(Request& request, StreamHandle stream);
  bool should_split(Block const& block, std::uint64_t size, BlockPool const& pool) const;
  BlockId hand_out(BlockIndex index, Request const& request);
  void refuse(Request const& request);
  std::int64_t device_free() const;

  // deallocation_inl.hpp
  void let_go(BlockIndex index);
  void complete(BlockIndex index);
  std::uint64_t merge(BlockIndex into, BlockIndex neighbour);
  void insert_free(BlockIndex index);
  void insert_events(BlockIndex index);
  void process_deferred();
  void process_events();
  void finish_events(std::vector<BlockIndex> const& blocks);
  std::vector<StreamIndex> streams_in_order() const;

  // release_inl.hpp
  void synchronise_and_free_events();
  void synchronise_and_free_events_of(int private_pool);
  bool release_cached_blocks();
  void release_private_pools(std::optional<int> only);
  void release_blocks_of(PoolIndex pool);
  void release(BlockIndex index);
  bool release_available(Request const& request);
  void collect_garbage();

  // expandable_inl.hpp
  std::uint64_t reach(Block const& block) const;
  BlockIndex map_for(Request const& request);
  BlockIndex room_for(Request const& request);
  bool has_room(BlockIndex first, std::uint64_t size) const;
  bool map(BlockIndex index, std::uint64_t size);
  void unmap(BlockIndex index);
  void remove_expandable(BlockIndex index);

  // private_pools_inl.hpp
  int need_pool(PrivatePoolId id, char const* what) const;

  void record(AllocatorAction action, DeviceAddress address, std::uint64_t size, ListIndex list) {
    if (records_events) { append(action, address, size, list); }
  }
  void append(AllocatorAction action, DeviceAddress address, std::uint64_t size, ListIndex list);
  bool collects_garbage() const { return limit && settings.garbage_collection_threshold > 0; }
  std::uint64_t reserved() const { return static_cast<std::uint64_t>(counters.reserved_bytes.current); }

  SizeRules rules_;
  EventTiming event_timing_ = EventTiming::immediate;
  BlockTable blocks_;
  PoolTable pools_;
  std::vector<ExpandableSegment> expandable_;
  StreamUses uses_;
  EventQueues events_;
  std::vector<BlockIndex> awaiting_outside_;  // freed by request_free, in that order
  std::vector<BlockIndex> deferred_;          // freed during a capture, used by other streams
  std::vector<Capture> captures_;             // in progress, the last begun at the end
  std::uint64_t device_used_ = 0;             // reserved bytes as the driver counts them
};

}  // namespace MAXBATCH_ABI_NAMESPACE
}  // namespace maxbatch::detail
