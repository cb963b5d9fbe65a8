#pragma once

#include <maxbatch/simulation/allocation_trace.hpp>

#include <c10/core/Device.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>

namespace maxbatch {

/// Records what the CUDA caching allocator of one device does, from construction until `finish`: every event, of all
/// threads, with its exact sizes. Works beside a search (phases and steps of trials are then marked by themselves) and in
/// any other program that uses LibTorch.
///
/// Events go to a buffer that is allocated beforehand, 40 bytes each. Those that it has no room for are not recorded but
/// counted, and the trace says so at its end: `lost_events`.
/// Threads: events of any thread are recorded; marks from any thread; one recorder per device index at a time.
/// Synchronises: no.
class TraceRecorder {
 public:
  /// 42 MB; three steps of a Swin-L are 22,000 events.
  static constexpr std::size_t kUsualCapacity = std::size_t{1} << 20;

  /// Starts. Takes note of what the allocator has already (AllocationTrace::initial_segments), and initialises CUDA.
  /// Throws: what `cuda_device` throws; InvalidArgument for no capacity; std::logic_error where another recorder runs on the
  /// index.
  explicit TraceRecorder(c10::DeviceIndex index = 0, std::size_t capacity = kUsualCapacity);
  ~TraceRecorder();
  TraceRecorder(TraceRecorder const&) = delete;
  TraceRecorder& operator=(TraceRecorder const&) = delete;

  void begin_step(std::int64_t number);
  void end_step(std::int64_t number);
  void begin_phase(std::string_view name);
  void end_phase(std::string_view name);
  /// The allocator's own statistics now, as in "mark:step0:allocated_peak=…:reserved_peak=…:reserved=…".
  void mark_statistics(std::string_view label);

  std::uint64_t event_count() const;
  std::uint64_t lost_events() const;

  /// Stops, and hands out what was recorded. Where events were lost the last mark is a statistic "lost_events".
  /// Throws: std::logic_error when called a second time.
  AllocationTrace finish();

 private:
  class Buffer;
  std::unique_ptr<Buffer> buffer_;
  bool finished_ = false;
};

}  // namespace maxbatch
