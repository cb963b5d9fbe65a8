#pragma once

#include <maxbatch/bytes.hpp>
#include <maxbatch/config.hpp>
#include <maxbatch/simulation/allocator_settings.hpp>
#include <maxbatch/simulation/device_address.hpp>
#include <maxbatch/simulation/device_address_space.hpp>
#include <maxbatch/simulation/driver_events.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace maxbatch {
inline namespace MAXBATCH_ABI_NAMESPACE {

/// One thing that the recorded program asked of the allocator.
struct ReplayOperation {
  enum class Kind : std::uint8_t {
    allocate,
    free,           ///< asked for and completed at once, as nearly always
    request_free,   ///< its two halves, where something lies between
    complete_free,  ///< likewise
    empty_cache,
    refused  ///< a request that was refused while recording; the program went on without the block, if it went on
  };

  std::int64_t size = 0;     // bytes, requested; of what was refused: rounded
  std::uint32_t block = 0;   // the program's name for it, used again once the block is free
  std::uint16_t stream = 0;  // into ReplayProgram::streams
  std::uint8_t pool = 0;     // into ReplayProgram::pools
  Kind kind = Kind::allocate;
};
static_assert(sizeof(ReplayOperation) == 16, "a replay reads millions of these");

/// A trace made ready to run through the simulator: what the program asked for, without what the allocator made of it.
struct ReplayProgram {
  /// Rebuilds what existed before the recording, with blocks of its own; empty: nothing did.
  std::vector<ReplayOperation> prologue;
  std::vector<ReplayOperation> operations;
  std::vector<std::uint32_t> event_of;  // operations[i] is from AllocationTrace::events[event_of[i]]
  std::uint32_t block_count = 0;        // names of blocks: 0 to block_count - 1
  std::vector<StreamHandle> streams;
  std::vector<PrivatePoolId> pools;

  std::vector<SegmentPurchase> purchases;  // the prologue's, then the recorded ones; empty: no addresses were recorded
  DriverEvents driver_events;              // where to let the driver act when addresses are modelled
  AllocatorSettings settings;              // while recording
  std::optional<Bytes> total_memory;       // of the device

  Bytes held_peak;                     // of rounded requests held at once: no budget below it can do
  std::int64_t initial_segments = 0;   // that the prologue buys
  std::int64_t empty_cache_calls = 0;  // recognised by what was given back with no request in need of it
  std::int64_t survived_refusals = 0;  // requests that were refused, and the program went on
  bool ends_in_refusal = false;        // the last request was refused: what would have come then is not known
  std::size_t last_refusal = 0;        // if so, the operation
  bool had_flushes = false;            // recorded under a limit that was felt
};

}  // namespace MAXBATCH_ABI_NAMESPACE
}  // namespace maxbatch
