#include "capture.hpp"

#include "current_device.hpp"
#include "dry_cuda/memory/card.hpp"
#include "stream_handle.hpp"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <unordered_map>
#include <utility>
#include <vector>

namespace maxbatch::dry {
namespace {

struct Captures {
  std::mutex mutex;
  std::uint64_t begun = 0;
  std::vector<std::shared_ptr<Capture>> active;
  std::unordered_map<cudaStream_t, std::shared_ptr<Capture>> of_stream;
};

Captures& captures() {
  static auto* const all = new Captures;  // calls come until the very end of the process
  return *all;
}

std::atomic<int> active_count{0};  // so that a process without captures pays one load

thread_local cudaStreamCaptureMode thread_mode = cudaStreamCaptureModeGlobal;

bool is_legacy(cudaStream_t stream) { return stream == nullptr || stream == cudaStreamLegacy; }

// Below: with the lock held.

std::shared_ptr<Capture> find(cudaStream_t stream) {
  auto const found = captures().of_stream.find(stream);
  return found == captures().of_stream.end() ? nullptr : found->second;
}

void join(cudaStream_t stream, std::shared_ptr<Capture> const& capture) {
  capture->progress[stream];
  capture->waits_for_legacy = capture->waits_for_legacy || (stream_flags(stream) & cudaStreamNonBlocking) == 0;
  captures().of_stream[stream] = capture;
}

/// What a call fails with that a capture forbids, and which makes that capture invalid.
cudaError_t forbid(Capture& capture, cudaError_t error) {
  capture.valid = false;
  return error;
}

cudaError_t check_legacy_use(int device) {
  for (auto const& capture : captures().active) {
    if (capture->device == device && capture->waits_for_legacy) {
      return forbid(*capture, cudaErrorStreamCaptureImplicit);
    }
  }
  return cudaSuccess;
}

void finish_capture(std::shared_ptr<Capture> const& capture) {
  capture->active = false;
  --active_count;
  for (auto const& entry : capture->progress) { captures().of_stream.erase(entry.first); }
  auto& active = captures().active;
  active.erase(std::remove(active.begin(), active.end(), capture), active.end());
}

bool is_joined(Capture const& capture) {
  auto const& origin = capture.progress.at(capture.origin);
  return std::all_of(capture.progress.begin(), capture.progress.end(), [&](auto const& entry) {
    auto const& [stream, progress] = entry;
    auto const own = progress.find(stream);
    auto const seen = origin.find(stream);
    return own == progress.end() || (seen != origin.end() && seen->second >= own->second);
  });
}

}  // namespace

std::shared_ptr<Capture> capture_of(cudaStream_t stream) {
  if (active_count.load(std::memory_order_acquire) == 0) { return nullptr; }
  std::lock_guard<std::mutex> const lock(captures().mutex);
  return find(stream);
}

cudaError_t begin_capture(cudaStream_t stream, cudaStreamCaptureMode mode) {
  if (is_legacy(stream)) { return cudaErrorStreamCaptureUnsupported; }
  if (!is_stream(stream)) { return cudaErrorInvalidResourceHandle; }
  std::lock_guard<std::mutex> const lock(captures().mutex);
  if (find(stream)) { return cudaErrorIllegalState; }
  auto capture = std::make_shared<Capture>();
  capture->id = ++captures().begun;
  capture->mode = mode;
  capture->origin = stream;
  capture->thread = std::this_thread::get_id();
  capture->device = current_device();
  join(stream, capture);
  captures().active.push_back(std::move(capture));
  ++active_count;
  return cudaSuccess;
}

cudaError_t end_capture(cudaStream_t stream, std::uint64_t* nodes) {
  if (!is_stream(stream)) { return cudaErrorInvalidResourceHandle; }
  std::lock_guard<std::mutex> const lock(captures().mutex);
  auto const capture = find(stream);
  if (!capture) { return cudaErrorIllegalState; }
  if (capture->origin != stream) { return forbid(*capture, cudaErrorStreamCaptureUnmatched); }
  if (capture->mode != cudaStreamCaptureModeRelaxed && capture->thread != std::this_thread::get_id()) {
    finish_capture(capture);
    return cudaErrorStreamCaptureWrongThread;
  }
  finish_capture(capture);
  *nodes = capture->nodes;
  if (!capture->valid) { return cudaErrorStreamCaptureInvalidated; }
  return is_joined(*capture) ? cudaSuccess : cudaErrorStreamCaptureUnjoined;
}

void leave_capture(cudaStream_t stream) {
  if (active_count.load(std::memory_order_acquire) == 0) { return; }
  std::lock_guard<std::mutex> const lock(captures().mutex);
  auto const capture = find(stream);
  if (!capture) { return; }
  capture->valid = false;
  captures().of_stream.erase(stream);
  if (capture->origin == stream) { finish_capture(capture); }
}

cudaError_t submit(cudaStream_t stream, bool* captured) {
  *captured = false;
  if (active_count.load(std::memory_order_acquire) == 0) { return cudaSuccess; }
  std::lock_guard<std::mutex> const lock(captures().mutex);
  if (is_legacy(stream)) { return check_legacy_use(current_device()); }
  auto const capture = find(stream);
  if (!capture) { return cudaSuccess; }
  if (!capture->valid) { return cudaErrorStreamCaptureInvalidated; }
  ++capture->nodes;
  ++capture->progress[stream][stream];
  *captured = true;
  return cudaSuccess;
}

cudaError_t check_unsafe_call() {
  if (active_count.load(std::memory_order_acquire) == 0 || thread_mode == cudaStreamCaptureModeRelaxed) {
    return cudaSuccess;
  }
  std::lock_guard<std::mutex> const lock(captures().mutex);
  for (auto const& capture : captures().active) {
    auto const forbids =
        capture->thread == std::this_thread::get_id()
            ? capture->mode != cudaStreamCaptureModeRelaxed
            : thread_mode == cudaStreamCaptureModeGlobal && capture->mode == cudaStreamCaptureModeGlobal;
    if (forbids) { return forbid(*capture, cudaErrorStreamCaptureUnsupported); }
  }
  return cudaSuccess;
}

cudaError_t check_device_wait(int device) {
  if (active_count.load(std::memory_order_acquire) == 0) { return cudaSuccess; }
  {
    std::lock_guard<std::mutex> const lock(captures().mutex);
    for (auto const& capture : captures().active) {
      if (capture->device == device) { return forbid(*capture, cudaErrorStreamCaptureUnsupported); }
    }
  }
  return check_unsafe_call();
}

cudaError_t check_stream_wait(cudaStream_t stream) {
  if (active_count.load(std::memory_order_acquire) == 0) { return cudaSuccess; }
  {
    std::lock_guard<std::mutex> const lock(captures().mutex);
    if (is_legacy(stream)) {
      if (auto const status = check_legacy_use(current_device()); status != cudaSuccess) { return status; }
    } else if (auto const capture = find(stream)) {
      return capture->valid ? forbid(*capture, cudaErrorStreamCaptureUnsupported) : cudaErrorStreamCaptureInvalidated;
    }
  }
  return check_unsafe_call();
}

cudaError_t check_event_wait(CapturedPoint const& point) {
  if (auto const& capture = point.capture) {
    std::lock_guard<std::mutex> const lock(captures().mutex);
    return capture->active ? forbid(*capture, cudaErrorCapturedEvent) : cudaErrorCapturedEvent;
  }
  return check_unsafe_call();
}

cudaError_t record_point(cudaStream_t stream, CapturedPoint* point) {
  *point = {};
  if (active_count.load(std::memory_order_acquire) == 0) { return cudaSuccess; }
  std::lock_guard<std::mutex> const lock(captures().mutex);
  if (is_legacy(stream)) { return check_legacy_use(current_device()); }
  auto const capture = find(stream);
  if (!capture) { return cudaSuccess; }
  if (!capture->valid) { return cudaErrorStreamCaptureInvalidated; }
  *point = {capture, capture->progress.at(stream)};
  return cudaSuccess;
}

cudaError_t wait_for_point(cudaStream_t stream, CapturedPoint const& point, bool recorded) {
  auto const& awaited = point.capture;
  if (!awaited && active_count.load(std::memory_order_acquire) == 0) { return cudaSuccess; }
  std::lock_guard<std::mutex> const lock(captures().mutex);
  auto const own = find(stream);
  if (own && !own->valid) { return cudaErrorStreamCaptureInvalidated; }
  if (!awaited || !awaited->active) {
    // What was never recorded is no work, and nothing to wait for.
    return own && recorded ? forbid(*own, cudaErrorStreamCaptureIsolation) : cudaSuccess;
  }
  if (!awaited->valid) { return cudaErrorStreamCaptureInvalidated; }
  if (is_legacy(stream)) { return forbid(*awaited, cudaErrorStreamCaptureImplicit); }
  if (own && own != awaited) { return forbid(*own, cudaErrorStreamCaptureMerge); }
  if (!own) { join(stream, awaited); }
  auto& progress = awaited->progress[stream];
  for (auto const& [other, count] : point.progress) { progress[other] = std::max(progress[other], count); }
  return cudaSuccess;
}

cudaStreamCaptureMode exchange_thread_mode(cudaStreamCaptureMode mode) { return std::exchange(thread_mode, mode); }

}  // namespace maxbatch::dry
