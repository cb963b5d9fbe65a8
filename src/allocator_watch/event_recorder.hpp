#pragma once

#include "dry_cuda/report/event_page.hpp"
#include "dry_cuda/report/report_page.hpp"

#include <c10/cuda/CUDACachingAllocator.h>

#include <cstdint>

namespace maxbatch::dry {

/// Writes the events of device 0's allocator to the page that the launcher named in MAXBATCH_RECORD_EVENTS. Without one, and in
/// every process but the first that comes to it, nothing happens.
class EventRecorder {
 public:
  void begin();
  bool records() const { return page_ != nullptr; }

  /// Under the allocator's lock.
  void event(c10::cuda::CUDACachingAllocator::TraceEntry const& entry);
  void step_ended(StepMark mark);
  /// Asks the device what it has for the allocator: not under a lock.
  void note_usable_memory();

 private:
  void write(WatchedEvent::Kind kind, std::uint64_t address, std::int64_t size, std::uint64_t stream,
             c10::MempoolId_t pool);

  EventPage* page_ = nullptr;
};

}  // namespace maxbatch::dry
