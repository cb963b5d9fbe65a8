#pragma once

#include <maxbatch/bytes.hpp>
#include <maxbatch/config.hpp>
#include <maxbatch/simulation/device_address.hpp>

#include <cstdint>
#include <string_view>

namespace maxbatch {
inline namespace MAXBATCH_ABI_NAMESPACE {

/// What LibTorch's allocator history and trace trackers name.
enum class AllocatorAction : std::uint8_t {
  alloc,
  free_requested,
  free_completed,
  segment_alloc,
  segment_free,
  segment_map,
  segment_unmap,
  oom
};
/// "segment_alloc", as in LibTorch's snapshots.
std::string_view to_string(AllocatorAction action);

/// One line of the allocator's history.
struct AllocatorEvent {
  AllocatorAction action = AllocatorAction::alloc;
  DeviceAddress address = 0;  // oom: the bytes that are free on the device
  Bytes size;                 // requested, before rounding; of a segment: what was bought; oom: rounded
  StreamHandle stream = kDefaultStream;
  PrivatePoolId pool;  // where a private pool was used

  friend bool operator==(AllocatorEvent const& a, AllocatorEvent const& b) {
    return a.action == b.action && a.address == b.address && a.size == b.size && a.stream == b.stream &&
           a.pool == b.pool;
  }
  friend bool operator!=(AllocatorEvent const& a, AllocatorEvent const& b) { return !(a == b); }
};

}  // namespace MAXBATCH_ABI_NAMESPACE
}  // namespace maxbatch

#if !defined(MAXBATCH_COMPILED_LIB)
#include <maxbatch/impl/simulation/allocator_event_inl.hpp>
#endif
