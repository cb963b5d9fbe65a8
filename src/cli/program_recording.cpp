#include "program_recording.hpp"

#include <algorithm>
#include <stdexcept>
#include <utility>

#include <sys/mman.h>
#include <unistd.h>

namespace maxbatch::cli {
namespace {

using dry::WatchedEvent;

TraceAction action_of(WatchedEvent::Kind kind) {
  switch (kind) {
    case WatchedEvent::Kind::alloc: return TraceAction::alloc;
    case WatchedEvent::Kind::free_requested: return TraceAction::free_requested;
    case WatchedEvent::Kind::free_completed: return TraceAction::free_completed;
    case WatchedEvent::Kind::segment_alloc: return TraceAction::segment_alloc;
    case WatchedEvent::Kind::segment_free: return TraceAction::segment_free;
    case WatchedEvent::Kind::segment_map: return TraceAction::segment_map;
    case WatchedEvent::Kind::segment_unmap: return TraceAction::segment_unmap;
    case WatchedEvent::Kind::out_of_memory: return TraceAction::oom;
    case WatchedEvent::Kind::none:
    case WatchedEvent::Kind::step_end: break;
  }
  return TraceAction::user_defined;
}

TraceEvent event_of(WatchedEvent const& watched, AllocationTrace& trace) {
  TraceEvent event;
  event.address = watched.address;
  event.size = watched.size;
  event.stream = trace.stream_index(watched.stream);
  event.pool = trace.pool_index({watched.pool_first, watched.pool_second});
  event.action = action_of(watched.kind);
  return event;
}

std::shared_ptr<dry::EventPage> map_page(process::NamelessFile const& file) {
  constexpr auto size = sizeof(dry::EventPage);
  void* const memory = ftruncate(file.descriptor(), static_cast<off_t>(size)) == 0
                           ? mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, file.descriptor(), 0)
                           : MAP_FAILED;
  if (memory == MAP_FAILED) { throw std::runtime_error("no memory for the recording of a trial"); }
  auto* const page = static_cast<dry::EventPage*>(memory);
  page->magic = dry::EventPage::kMagic;
  return {page, [](dry::EventPage* mapped) { munmap(mapped, sizeof(dry::EventPage)); }};
}

}  // namespace

ProgramRecording recording_of(dry::EventPage const& page, dry::StepMark mark) {
  ProgramRecording recording;
  if (page.process == 0) { recording.problem = "LibTorch's allocator could not be watched"; }
  if (page.is_mixed != 0) { recording.problem = "several processes or devices are used"; }
  if (!recording.problem.empty()) { return recording; }
  auto& trace = recording.trace;
  trace.total_memory = Bytes{page.total_bytes};
  trace.allocator_settings = page.settings.data();
  recording.multiprocessors = page.multiprocessors;
  recording.threads_per_multiprocessor = page.threads_per_multiprocessor;
  if (page.usable_bytes > 0) { recording.usable = Bytes{page.usable_bytes}; }
  auto const written = page.written.load();
  recording.is_cut = written > dry::EventPage::kEvents;
  auto const count = std::min<std::uint64_t>(written, dry::EventPage::kEvents);
  trace.events.reserve(count);
  for (std::uint64_t i = 0; i < count; ++i) {
    auto const& event = page.event.at(i);
    auto const kind = event.kind.load(std::memory_order_acquire);
    if (kind == WatchedEvent::Kind::none) { break; }  // it was killed while it wrote this one
    if (kind != WatchedEvent::Kind::step_end) {
      trace.events.push_back(event_of(event, trace));
    } else if (event.size == static_cast<std::int64_t>(mark)) {
      TraceMark end;
      end.event = trace.events.size();
      end.kind = TraceMark::Kind::step_end;
      end.label = std::to_string(recording.steps++);
      trace.marks.push_back(std::move(end));
    }
  }
  return recording;
}

AllocationTrace first_steps_of(ProgramRecording const& recording, std::int64_t steps) {
  auto trace = recording.trace;
  if (steps < 1 || steps > static_cast<std::int64_t>(trace.marks.size())) {
    throw std::invalid_argument("a recording of " + std::to_string(trace.marks.size()) + " steps has no first " +
                                std::to_string(steps));
  }
  trace.marks.resize(static_cast<std::size_t>(steps));
  trace.events.resize(static_cast<std::size_t>(trace.marks.back().event));
  return trace;
}

EventFile::EventFile() : file_("maxbatch-events", ""), page_(map_page(file_)) {}

}  // namespace maxbatch::cli
