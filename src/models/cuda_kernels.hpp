#pragma once

// How an operator reaches its kernel: the one place that knows whether kernels were built.

#include <maxbatch/search/errors.hpp>

#include <ATen/core/Tensor.h>

#include <string>

#if MAXBATCH_HAS_CUDA_KERNELS
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#endif

namespace maxbatch::models {

#if MAXBATCH_HAS_CUDA_KERNELS

/// Calls `launch` with the current stream of the tensor's device, which is the current one meanwhile.
template <typename Launch>
void with_cuda_kernels(char const* /*what*/, at::Tensor const& tensor, Launch const& launch) {
  c10::cuda::CUDAGuard const guard(tensor.device());
  launch(static_cast<void*>(c10::cuda::getCurrentCUDAStream().stream()));
}

inline void check_launch(int error) { C10_CUDA_CHECK(static_cast<cudaError_t>(error)); }

#else

/// Refuses: a kernel replaced by a hundred operators would need other memory, and nobody would know.
template <typename Launch>
void with_cuda_kernels(char const* what, at::Tensor const& tensor, Launch const&) {
  throw InvalidArgument(
      std::string(what) + " on " + tensor.device().str() +
      " needs a CUDA kernel, and maxbatch was built without nvcc: configure it again with nvcc on PATH "
      "(scripts/run installs one where it is missing), or use the CPU");
}

#endif

}  // namespace maxbatch::models
