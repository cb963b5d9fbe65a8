#pragma once

#include <cuda_runtime_api.h>

namespace maxbatch::dry {

struct Stream {
  int device = 0;
  int priority = 0;
  unsigned flags = cudaStreamDefault;
};

/// Whether it is one of CUDA's own streams (null, legacy, per thread) or one that was made and not destroyed.
bool is_stream(cudaStream_t stream);
/// As it was made; those of CUDA's own streams are the default.
unsigned stream_flags(cudaStream_t stream);

}  // namespace maxbatch::dry
