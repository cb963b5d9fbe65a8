#pragma once

#include <maxbatch/bytes.hpp>
#include <maxbatch/config.hpp>
#include <maxbatch/simulation/device_address.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace maxbatch {
inline namespace MAXBATCH_ABI_NAMESPACE {

/// What the caching allocator did, by the names that its own history gives.
enum class TraceAction : std::uint8_t {
  alloc,           ///< a block was handed out; `size` is the requested one, before rounding
  free_requested,  ///< the owner let go of a block
  free_completed,  ///< the block can be handed out again
  segment_alloc,   ///< bought from the driver
  segment_free,    ///< given back to the driver
  segment_map,     ///< pages of an expandable segment; one event per mapping
  segment_unmap,   ///< likewise
  oom,             ///< a request was refused: `address` is what the device had free, `size` the rounded request
  snapshot,        ///< somebody took a memory snapshot
  user_defined     ///< a note of the program's; `size` means nothing
};
/// "segment_alloc"
std::string_view to_string(TraceAction action);
std::optional<TraceAction> parse_trace_action(std::string_view text);

/// One line of the allocator's history.
struct TraceEvent {
  DeviceAddress address = 0;
  std::int64_t size = 0;     // bytes
  std::int64_t time_us = 0;  // since the epoch, or whatever start the source has; 0: unknown
  std::uint32_t label = 0;   // into AllocationTrace::labels: what asked for it (an operator, a module, a source line)
  std::uint16_t stream = 0;  // into AllocationTrace::streams
  std::uint8_t pool = 0;     // into AllocationTrace::pools; 0: the allocator's default pools
  TraceAction action = TraceAction::alloc;

  friend bool operator==(TraceEvent const& a, TraceEvent const& b) {
    return a.address == b.address && a.size == b.size && a.time_us == b.time_us && a.label == b.label &&
           a.stream == b.stream && a.pool == b.pool && a.action == b.action;
  }
};
static_assert(sizeof(TraceEvent) == 32, "recorders keep millions of these");

/// A number with the name that it has in the recording: {"reserved_peak", 866123776}.
struct TraceStatistic {
  std::string name;
  std::int64_t value = 0;

  friend bool operator==(TraceStatistic const& a, TraceStatistic const& b) {
    return a.name == b.name && a.value == b.value;
  }
};

/// Something that is said between two events.
struct TraceMark {
  enum class Kind : std::uint8_t {
    statistics,   ///< the allocator's own statistics at this moment
    step_begin,   ///< of a training step; `label` is its number
    step_end,     ///< likewise
    phase_begin,  ///< of a part of a step; `label` is its name: "forward"
    phase_end     ///< likewise
  };

  std::uint64_t event = 0;  // before events[event]; events.size(): at the end
  Kind kind = Kind::statistics;
  std::string label;
  std::vector<TraceStatistic> statistics;

  /// The statistic of that name.
  std::optional<std::int64_t> statistic(std::string_view name) const;

  friend bool operator==(TraceMark const& a, TraceMark const& b) {
    return a.event == b.event && a.kind == b.kind && a.label == b.label && a.statistics == b.statistics;
  }
};
/// "phase_begin"
std::string_view to_string(TraceMark::Kind kind);

/// On what a trace was recorded.
enum class TraceWorld : std::uint8_t { unknown, measured, dry, cpu, simulated };
/// "measured"
std::string_view to_string(TraceWorld world);

/// A block inside a segment.
struct TraceBlock {
  enum class State : std::uint8_t { inactive, allocated, pending_free };

  DeviceAddress address = 0;
  std::int64_t size = 0;            // bytes
  std::int64_t requested_size = 0;  // bytes; of what is not inactive
  State state = State::inactive;

  friend bool operator==(TraceBlock const& a, TraceBlock const& b) {
    return a.address == b.address && a.size == b.size && a.requested_size == b.requested_size && a.state == b.state;
  }
};

/// What the allocator held at one moment. The blocks lie side by side and cover the mapped part.
struct TraceSegment {
  DeviceAddress address = 0;
  std::int64_t size = 0;     // bytes
  std::uint16_t stream = 0;  // into AllocationTrace::streams
  std::uint8_t pool = 0;     // into AllocationTrace::pools
  bool small = false;        // belongs to the pool of small blocks
  bool expandable = false;
  std::vector<TraceBlock> blocks;

  friend bool operator==(TraceSegment const& a, TraceSegment const& b) {
    return a.address == b.address && a.size == b.size && a.stream == b.stream && a.pool == b.pool &&
           a.small == b.small && a.expandable == b.expandable && a.blocks == b.blocks;
  }
};

/// What one device's caching allocator did, event by event.
///
/// A plain value. Recorders append to `events`, which costs 32 bytes each; strings, stream handles and pool ids are kept
/// once.
struct AllocationTrace {
  std::vector<TraceEvent> events;
  std::vector<TraceMark> marks;  // ascending by TraceMark::event
  std::vector<StreamHandle> streams = {kDefaultStream};
  std::vector<std::string> labels = {""};       // [0]: no label
  std::vector<PrivatePoolId> pools = {{0, 0}};  // [0]: the default pools
  /// What existed before the first event. Empty: recorded from the beginning.
  std::vector<TraceSegment> initial_segments;

  int device_index = 0;
  std::string device_name;            // empty: unknown
  std::optional<Bytes> total_memory;  // of the device
  std::optional<Bytes> limit;         // on reserved bytes while recording; none: unknown
  std::string allocator_settings;     // as in PYTORCH_CUDA_ALLOC_CONF; empty: unknown, or the defaults
  TraceWorld world = TraceWorld::unknown;

  /// The index of `handle` in `streams`, which it is added to if it is new.
  /// Throws: std::length_error where there are more than 65,535.
  std::uint16_t stream_index(StreamHandle handle);
  /// The index of `text` in `labels`, likewise. Linear in the number of labels: keep a map of your own for many.
  std::uint32_t label_index(std::string_view text);
  /// The index of `id` in `pools`, likewise.
  /// Throws: std::length_error where there are more than 255.
  std::uint8_t pool_index(PrivatePoolId id);

  /// The last `statistics` mark's value of that name.
  std::optional<std::int64_t> last_statistic(std::string_view name) const;
};
bool operator==(AllocationTrace const& a, AllocationTrace const& b);
inline bool operator!=(AllocationTrace const& a, AllocationTrace const& b) { return !(a == b); }

}  // namespace MAXBATCH_ABI_NAMESPACE
}  // namespace maxbatch

#if !defined(MAXBATCH_COMPILED_LIB)
#include <maxbatch/impl/simulation/allocation_trace_inl.hpp>
#endif
