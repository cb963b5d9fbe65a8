#include "capture.hpp"
#include "current_device.hpp"
#include "dry_cuda/entry_point.hpp"
#include "dry_cuda/memory/card.hpp"
#include "order.hpp"
#include "stream_handle.hpp"
#include "thread_error.hpp"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <mutex>
#include <unordered_map>

namespace maxbatch::dry {
namespace {

struct Streams {
  std::mutex mutex;
  std::unordered_map<cudaStream_t, std::unique_ptr<Stream>> made;
};

Streams& streams() {
  static auto* const all = new Streams;  // calls come until the very end of the process
  return *all;
}

bool is_built_in(cudaStream_t stream) {
  return stream == nullptr || stream == cudaStreamLegacy || stream == cudaStreamPerThread;
}

/// With the lock held; null when there is none.
Stream* find(cudaStream_t stream) {
  auto const found = streams().made.find(stream);
  return found == streams().made.end() ? nullptr : found->second.get();
}

cudaError_t create(cudaStream_t* handle, unsigned flags, int priority) {
  if (handle == nullptr || flags > cudaStreamNonBlocking) { return cudaErrorInvalidValue; }
  if (auto const status = ready(); status != cudaSuccess) { return status; }
  Card::current();
  auto stream = std::make_unique<Stream>();
  stream->device = current_device();
  stream->flags = flags;
  stream->priority = std::clamp(priority, -5, 0);
  *handle = reinterpret_cast<cudaStream_t>(stream.get());
  std::lock_guard<std::mutex> const lock(streams().mutex);
  streams().made.emplace(*handle, std::move(stream));
  return cudaSuccess;
}

/// What a call on a stream begins with.
cudaError_t check(cudaStream_t stream) {
  if (auto const status = ready(); status != cudaSuccess) { return status; }
  return is_stream(stream) ? cudaSuccess : cudaErrorInvalidResourceHandle;
}

cudaError_t wait_for_all(cudaStream_t stream) {
  if (auto const status = check(stream); status != cudaSuccess) { return status; }
  return check_stream_wait(stream);
}

std::atomic<std::uint64_t> work_done{0};

}  // namespace

std::uint64_t note_work() noexcept { return work_done.fetch_add(1, std::memory_order_relaxed) + 1; }

bool is_stream(cudaStream_t stream) {
  if (is_built_in(stream)) { return true; }
  std::lock_guard<std::mutex> const lock(streams().mutex);
  return find(stream) != nullptr;
}

unsigned stream_flags(cudaStream_t stream) {
  if (is_built_in(stream)) { return cudaStreamDefault; }
  std::lock_guard<std::mutex> const lock(streams().mutex);
  auto const* const found = find(stream);
  return found == nullptr ? cudaStreamDefault : found->flags;
}

}  // namespace maxbatch::dry

using namespace maxbatch::dry;  // NOLINT(google-build-using-namespace): entry points live outside

MAXBATCH_DRY_ENTRY cudaError_t cudaStreamCreate(cudaStream_t* stream) {
  return finish(create(stream, cudaStreamDefault, 0));
}
MAXBATCH_DRY_ENTRY cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags) {
  return finish(create(stream, flags, 0));
}
MAXBATCH_DRY_ENTRY cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned flags, int priority) {
  return finish(create(stream, flags, priority));
}
MAXBATCH_DRY_ENTRY cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  leave_capture(stream);
  std::lock_guard<std::mutex> const lock(streams().mutex);
  return finish(streams().made.erase(stream) == 1 ? cudaSuccess : cudaErrorInvalidResourceHandle);
}

MAXBATCH_DRY_ENTRY cudaError_t cudaStreamGetPriority(cudaStream_t stream, int* priority) {
  if (auto const status = check(stream); status != cudaSuccess) { return finish(status); }
  std::lock_guard<std::mutex> const lock(streams().mutex);
  auto const* const found = find(stream);
  *priority = found == nullptr ? 0 : found->priority;
  return cudaSuccess;
}
MAXBATCH_DRY_ENTRY cudaError_t cudaStreamGetFlags(cudaStream_t stream, unsigned* flags) {
  if (auto const status = check(stream); status != cudaSuccess) { return finish(status); }
  std::lock_guard<std::mutex> const lock(streams().mutex);
  auto const* const found = find(stream);
  *flags = found == nullptr ? cudaStreamDefault : found->flags;
  return cudaSuccess;
}
MAXBATCH_DRY_ENTRY cudaError_t cudaStreamGetId(cudaStream_t stream, unsigned long long* id) {
  if (auto const status = check(stream); status != cudaSuccess) { return finish(status); }
  *id = reinterpret_cast<std::uintptr_t>(stream);
  return cudaSuccess;
}
MAXBATCH_DRY_ENTRY cudaError_t cudaStreamGetDevice(cudaStream_t stream, int* device) {
  if (auto const status = check(stream); status != cudaSuccess) { return finish(status); }
  std::lock_guard<std::mutex> const lock(streams().mutex);
  auto const* const found = find(stream);
  *device = found == nullptr ? current_device() : found->device;
  return cudaSuccess;
}

// Note [Order without time]: nothing is ever in flight.
MAXBATCH_DRY_ENTRY cudaError_t cudaStreamQuery(cudaStream_t stream) { return finish(wait_for_all(stream)); }
MAXBATCH_DRY_ENTRY cudaError_t cudaStreamSynchronize(cudaStream_t stream) { return finish(wait_for_all(stream)); }

MAXBATCH_DRY_ENTRY cudaError_t cudaStreamAddCallback(cudaStream_t stream, cudaStreamCallback_t callback, void* data,
                                                     unsigned flags) {
  if (callback == nullptr || flags != 0) { return finish(cudaErrorInvalidValue); }
  if (auto const status = check(stream); status != cudaSuccess) { return finish(status); }
  if (auto const status = check_stream_wait(stream); status != cudaSuccess) { return finish(status); }
  note_work();
  callback(stream, cudaSuccess, data);
  return cudaSuccess;
}
MAXBATCH_DRY_ENTRY cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function, void* data) {
  if (function == nullptr) { return finish(cudaErrorInvalidValue); }
  if (auto const status = check(stream); status != cudaSuccess) { return finish(status); }
  bool captured = false;
  if (auto const status = submit(stream, &captured); status != cudaSuccess) { return finish(status); }
  if (captured) { return cudaSuccess; }
  note_work();
  function(data);
  return cudaSuccess;
}
