#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <memory>

namespace maxbatch::dry {

/// A capture in progress: what it collects. Streams that wait for one of its events join it.
struct Capture {
  std::uint64_t id = 0;
  std::uint64_t nodes = 0;
  bool active = true;
  cudaStreamCaptureMode mode = cudaStreamCaptureModeGlobal;
};

struct Stream {
  int device = 0;
  int priority = 0;
  unsigned flags = cudaStreamDefault;
  std::shared_ptr<Capture> capture;
};

/// The capture that `stream` takes part in, or null. Any thread.
std::shared_ptr<Capture> capture_of(cudaStream_t stream);
void join_capture(cudaStream_t stream, std::shared_ptr<Capture> capture);
/// Whether it is one of CUDA's own streams (null, legacy, per thread) or one that was made and not destroyed.
bool is_stream(cudaStream_t stream);

}  // namespace maxbatch::dry
