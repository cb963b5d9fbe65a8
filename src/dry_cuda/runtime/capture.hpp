#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <map>
#include <memory>
#include <thread>

namespace maxbatch::dry {

// Note [What a capture forbids]
// From the runtime's documentation (cudaStreamCaptureMode, cudaThreadExchangeStreamCaptureMode) and the programming guide
// (CUDA graphs, prohibited and unhandled operations): while a stream is captured,
// - it can neither be waited for nor asked whether it is done, nor can its device, nor an event that was recorded in it;
// - calls that may wait for the device, such as cudaMalloc, are forbidden to the capturing thread, and under the mode "global" to
//   every thread, but for threads that relaxed their own mode;
// - the legacy stream cannot be used where a captured stream is one that waits for it;
// - work outside the capture cannot be waited for in it, nor can another capture's;
// - what it forked must be joined before it ends.
// Who tries it gets an error, and the capture becomes invalid: every further use of its streams fails until it is ended, which
// fails, too. One that another thread tries to end is over, without a graph. An H200 (driver 580.159.04) gave each of the 424
// answers of tests/data/dry_cuda/capture_answers.txt.

/// A capture in progress. Streams that wait for one of its events join it.
struct Capture {
  /// How many nodes of each stream have to be done before something: a vector clock.
  using Progress = std::map<cudaStream_t, std::uint64_t>;

  std::uint64_t id = 0;
  std::uint64_t nodes = 0;
  bool active = true;
  bool valid = true;
  cudaStreamCaptureMode mode = cudaStreamCaptureModeGlobal;
  cudaStream_t origin = nullptr;
  std::thread::id thread;
  int device = 0;
  bool waits_for_legacy = false;              ///< one of its streams was made without cudaStreamNonBlocking
  std::map<cudaStream_t, Progress> progress;  ///< of the streams that take part
};

/// What is recorded of a capture in an event.
struct CapturedPoint {
  std::shared_ptr<Capture> capture;  ///< null: the event was recorded outside of any, or never
  Capture::Progress progress;

  [[nodiscard]] bool is_captured() const { return capture != nullptr; }
};

/// The capture that `stream` takes part in, or null. Any thread.
std::shared_ptr<Capture> capture_of(cudaStream_t stream);

cudaError_t begin_capture(cudaStream_t stream, cudaStreamCaptureMode mode);
/// Takes all its streams out of it, also where it fails because another thread began it. `nodes`: how many it had.
cudaError_t end_capture(cudaStream_t stream, std::uint64_t* nodes);

/// A stream that is destroyed: a capture that it took part in is invalid, and is over with the stream that it began in.
void leave_capture(cudaStream_t stream);

/// What a call begins with that puts work into a stream. `captured`: the work became a node and is not to be done. Fails where
/// the stream's capture is invalid, or where the stream is the legacy one and a capture forbids that.
cudaError_t submit(cudaStream_t stream, bool* captured);

/// What a call begins with that may wait for the device.
cudaError_t check_unsafe_call();
/// The same for one that waits for a whole device, or asks about it.
cudaError_t check_device_wait(int device);
/// The same for one that waits for a stream, or asks about it.
cudaError_t check_stream_wait(cudaStream_t stream);
/// The same for an event that was last recorded at `point`.
cudaError_t check_event_wait(CapturedPoint const& point);

/// Where a stream is now in its capture; nothing outside of one.
cudaError_t record_point(cudaStream_t stream, CapturedPoint* point);
/// Makes `stream` wait for a point. `recorded`: the event was recorded at all, in a capture or not.
cudaError_t wait_for_point(cudaStream_t stream, CapturedPoint const& point, bool recorded);

/// The calling thread's own mode.
cudaStreamCaptureMode exchange_thread_mode(cudaStreamCaptureMode mode);

}  // namespace maxbatch::dry
