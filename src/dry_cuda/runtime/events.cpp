#include "capture.hpp"
#include "current_device.hpp"
#include "dry_cuda/entry_point.hpp"
#include "dry_cuda/memory/card.hpp"
#include "order.hpp"
#include "stream_handle.hpp"
#include "thread_error.hpp"

#include <cuda_runtime_api.h>

#include <memory>
#include <mutex>
#include <unordered_map>

namespace maxbatch::dry {
namespace {

struct Event {
  unsigned flags = cudaEventDefault;
  std::uint64_t recorded_at = 0;  // 0: never
  CapturedPoint captured;
};

struct Events {
  std::mutex mutex;
  std::unordered_map<cudaEvent_t, std::unique_ptr<Event>> made;
};

Events& events() {
  static auto* const all = new Events;  // calls come until the very end of the process
  return *all;
}

/// With the lock held; null when there is none.
Event* find(cudaEvent_t event) {
  auto const found = events().made.find(event);
  return found == events().made.end() ? nullptr : found->second.get();
}

cudaError_t create(cudaEvent_t* handle, unsigned flags) {
  constexpr unsigned kKnown = cudaEventBlockingSync | cudaEventDisableTiming | cudaEventInterprocess;
  if (handle == nullptr || (flags & ~kKnown) != 0) { return cudaErrorInvalidValue; }
  if (auto const status = ready(); status != cudaSuccess) { return status; }
  Card::current();
  auto event = std::make_unique<Event>();
  event->flags = flags;
  *handle = reinterpret_cast<cudaEvent_t>(event.get());
  std::lock_guard<std::mutex> const lock(events().mutex);
  events().made.emplace(*handle, std::move(event));
  return cudaSuccess;
}

cudaError_t record(cudaEvent_t handle, cudaStream_t stream, unsigned flags) {
  if (auto const status = ready(); status != cudaSuccess) { return status; }
  if (!is_stream(stream)) { return cudaErrorInvalidResourceHandle; }
  std::lock_guard<std::mutex> const lock(events().mutex);
  auto* const event = find(handle);
  if (event == nullptr) { return cudaErrorInvalidResourceHandle; }
  bool captured = false;
  if ((flags & cudaEventRecordExternal) != 0) {  // a node of the graph, which marks no point of the capture
    auto const status = submit(stream, &captured);
    if (status != cudaSuccess || captured) { return status; }
  }
  if (auto const status = record_point(stream, &event->captured); status != cudaSuccess) { return status; }
  if (!event->captured.is_captured()) { event->recorded_at = note_work(); }
  return cudaSuccess;
}

/// Note [Order without time]: what was recorded has happened, and so has what never was.
cudaError_t wait(cudaEvent_t handle) {
  if (auto const status = ready(); status != cudaSuccess) { return status; }
  std::lock_guard<std::mutex> const lock(events().mutex);
  auto const* const event = find(handle);
  return event == nullptr ? cudaErrorInvalidResourceHandle : check_event_wait(event->captured);
}

}  // namespace
}  // namespace maxbatch::dry

using namespace maxbatch::dry;  // NOLINT(google-build-using-namespace): entry points live outside

MAXBATCH_DRY_ENTRY cudaError_t cudaEventCreate(cudaEvent_t* event) { return finish(create(event, cudaEventDefault)); }
MAXBATCH_DRY_ENTRY cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags) {
  return finish(create(event, flags));
}
MAXBATCH_DRY_ENTRY cudaError_t cudaEventDestroy(cudaEvent_t event) {
  std::lock_guard<std::mutex> const lock(events().mutex);
  return finish(events().made.erase(event) == 1 ? cudaSuccess : cudaErrorInvalidResourceHandle);
}
MAXBATCH_DRY_ENTRY cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  return finish(record(event, stream, cudaEventRecordDefault));
}
MAXBATCH_DRY_ENTRY cudaError_t cudaEventRecordWithFlags(cudaEvent_t event, cudaStream_t stream, unsigned flags) {
  return finish(record(event, stream, flags));
}
MAXBATCH_DRY_ENTRY cudaError_t cudaEventQuery(cudaEvent_t event) { return finish(wait(event)); }
MAXBATCH_DRY_ENTRY cudaError_t cudaEventSynchronize(cudaEvent_t event) { return finish(wait(event)); }

MAXBATCH_DRY_ENTRY cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t begin, cudaEvent_t end) {
  if (milliseconds == nullptr) { return finish(cudaErrorInvalidValue); }
  std::lock_guard<std::mutex> const lock(events().mutex);
  auto const* const first = find(begin);
  auto const* const last = find(end);
  for (auto const* const event : {first, last}) {
    if (event == nullptr || event->recorded_at == 0 || (event->flags & cudaEventDisableTiming) != 0) {
      return finish(cudaErrorInvalidResourceHandle);
    }
  }
  *milliseconds = 1e-3F * static_cast<float>(static_cast<std::int64_t>(last->recorded_at - first->recorded_at));
  return cudaSuccess;
}

MAXBATCH_DRY_ENTRY cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t handle, unsigned flags) {
  if (auto const status = ready(); status != cudaSuccess) { return finish(status); }
  if (!is_stream(stream)) { return finish(cudaErrorInvalidResourceHandle); }
  std::lock_guard<std::mutex> const lock(events().mutex);
  auto const* const event = find(handle);
  if (event == nullptr) { return finish(cudaErrorInvalidResourceHandle); }
  bool captured = false;
  if ((flags & cudaEventWaitExternal) != 0) {
    auto const status = submit(stream, &captured);
    if (status != cudaSuccess || captured) { return finish(status); }
  }
  return finish(wait_for_point(stream, event->captured, event->recorded_at != 0));
}
