#pragma once

#include <maxbatch/search/memory_peaks.hpp>
#include <maxbatch/search/phase.hpp>
#include <maxbatch/simulation/allocation_trace.hpp>

#include <cstdint>

namespace maxbatch::detail {

/// What the hook keeps of one event of the caching allocator: plain values, no table lookups, since it is written under
/// the allocator's lock.
struct AllocatorEvent {
  std::uint64_t address = 0;  ///< TraceAction::oom: what the device had free
  std::int64_t size = 0;      ///< requested bytes; of segments and of TraceAction::oom the real ones
  std::uint64_t stream = 0;
  std::uint32_t pool_first = 0;
  std::uint32_t pool_second = 0;
  TraceAction action = TraceAction::alloc;
};
static_assert(sizeof(AllocatorEvent) <= 100, "recorders keep millions of these");

/// What the allocator's out-of-memory observers are told, after the event TraceAction::oom and without the lock.
struct SegmentRefusal {
  std::int64_t segment = 0;      ///< bytes that the allocator wanted of the device
  std::int64_t device_free = 0;  ///< bytes
  bool is_workspace = false;     ///< wanted by a convolution that makes do with less: see convolution_workspace.hpp
};

/// Somebody who is told what one device's allocator does.
class AllocatorListener {
 public:
  virtual ~AllocatorListener() = default;
  /// Under the allocator's lock, on the thread that allocates: write to memory that is there, and nothing else.
  virtual void on_event(AllocatorEvent const& event) noexcept = 0;
  /// On the thread whose request was refused, one at a time.
  virtual void on_refusal(SegmentRefusal const& refusal) noexcept = 0;
  /// What a trial says of itself.
  virtual void on_phase(Phase /*before*/, Phase /*after*/) noexcept {}
  virtual void on_step_begin(std::int64_t /*number*/) noexcept {}
  virtual void on_step_end(std::int64_t /*number*/, MemoryPeaks const& /*peaks*/, Bytes /*reserved*/) noexcept {}
};

}  // namespace maxbatch::detail
