#include "event_recorder.hpp"

#include "dry_cuda/report/shared_page.hpp"

#include <ATen/cuda/CUDAContextLight.h>
#include <c10/core/AllocatorConfig.h>

#include <cstdlib>
#include <utility>

#include <unistd.h>

namespace maxbatch::dry {
namespace {

namespace allocator = c10::cuda::CUDACachingAllocator;
using Kind = WatchedEvent::Kind;
constexpr auto kAll = static_cast<std::size_t>(c10::CachingAllocator::StatType::AGGREGATE);

/// None: of no interest to who replays it.
Kind kind_of(allocator::TraceEntry const& entry) {
  switch (entry.action_) {
    case allocator::TraceEntry::ALLOC: return Kind::alloc;
    case allocator::TraceEntry::FREE_REQUESTED: return Kind::free_requested;
    case allocator::TraceEntry::FREE_COMPLETED: return Kind::free_completed;
    case allocator::TraceEntry::SEGMENT_ALLOC: return Kind::segment_alloc;
    case allocator::TraceEntry::SEGMENT_FREE: return Kind::segment_free;
    case allocator::TraceEntry::SEGMENT_MAP: return Kind::segment_map;
    case allocator::TraceEntry::SEGMENT_UNMAP: return Kind::segment_unmap;
    case allocator::TraceEntry::OOM: return Kind::out_of_memory;
    default: return Kind::none;
  }
}

}  // namespace

void EventRecorder::begin() {
  char const* const path = std::getenv("MAXBATCH_RECORD_EVENTS");
  if (path == nullptr) { return; }
  auto* const page = map_page<EventPage>(path);
  if (page == nullptr) { return; }
  std::int32_t nobody = 0;
  if (!page->process.compare_exchange_strong(nobody, getpid())) {
    page->is_mixed = 1;
    return;
  }
  auto const& properties = *at::cuda::getDeviceProperties(0);
  copy_text(page->settings, c10::CachingAllocator::getAllocatorSettings());
  page->total_bytes = static_cast<std::int64_t>(properties.totalGlobalMem);
  page->multiprocessors = properties.multiProcessorCount;
  page->threads_per_multiprocessor = properties.maxThreadsPerMultiProcessor;
  page_ = page;
}

void EventRecorder::event(allocator::TraceEntry const& entry) {
  if (page_ == nullptr) { return; }
  if (entry.device_ != 0) {
    page_->is_mixed = 1;
    return;
  }
  auto const kind = kind_of(entry);
  if (kind == Kind::none) { return; }
  write(kind, entry.addr_, static_cast<std::int64_t>(entry.size_),
        static_cast<std::uint64_t>(reinterpret_cast<std::uintptr_t>(entry.stream_)), entry.mempool_);
}

void EventRecorder::step_ended(StepMark mark) {
  if (page_ != nullptr) { write(Kind::step_end, 0, static_cast<std::int64_t>(mark), 0, {0, 0}); }
}

void EventRecorder::note_usable_memory() {
  if (page_ == nullptr) { return; }
  auto const free = allocator::get()->getMemoryInfo(0).first;
  auto const reserved = allocator::getDeviceStats(0).reserved_bytes.at(kAll).current;
  page_->usable_bytes = static_cast<std::int64_t>(free) + reserved;
}

void EventRecorder::write(Kind kind, std::uint64_t address, std::int64_t size, std::uint64_t stream,
                          c10::MempoolId_t pool) {
  auto const place = page_->written.fetch_add(1, std::memory_order_relaxed);
  if (place >= EventPage::kEvents) { return; }
  auto& event = page_->event[place];
  event.address = address;
  event.size = size;
  event.stream = stream;
  event.pool_first = static_cast<std::uint32_t>(pool.first);
  event.pool_second = static_cast<std::uint32_t>(pool.second);
  event.kind.store(kind, std::memory_order_release);
}

}  // namespace maxbatch::dry
