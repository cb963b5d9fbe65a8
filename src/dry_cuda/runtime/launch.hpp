#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>

namespace maxbatch::dry {

/// A launch of any kernel: checked as CUDA checks it, counted, and nothing else.
cudaError_t launch(dim3 const& grid, dim3 const& block, std::size_t dynamic_shared_bytes, std::size_t most_shared_bytes,
                   cudaStream_t stream);

}  // namespace maxbatch::dry
