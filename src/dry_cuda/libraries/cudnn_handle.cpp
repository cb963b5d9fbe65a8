// cuDNN's handle: a stream, and nothing behind it.
#include "dry_cuda/entry_point.hpp"
#include "dry_cuda/memory/driver_events.hpp"

#include <cuda_runtime_api.h>
#include <cudnn_graph.h>

#include <atomic>
#include <cstddef>

// Complete here and nowhere else: cuDNN declares it, and leaves it to the library.
struct cudnnContext {
  std::atomic<cudaStream_t> stream{nullptr};
};

using namespace maxbatch::dry;  // NOLINT(google-build-using-namespace): entry points live outside

MAXBATCH_DRY_ENTRY cudnnStatus_t cudnnCreate(cudnnHandle_t* handle) {
  if (handle == nullptr) return CUDNN_STATUS_BAD_PARAM;
  note_cudnn_handle();
  *handle = new cudnnContext;
  return CUDNN_STATUS_SUCCESS;
}

MAXBATCH_DRY_ENTRY cudnnStatus_t cudnnDestroy(cudnnHandle_t handle) {
  if (handle == nullptr) return CUDNN_STATUS_BAD_PARAM;
  delete handle;
  return CUDNN_STATUS_SUCCESS;
}

MAXBATCH_DRY_ENTRY cudnnStatus_t cudnnSetStream(cudnnHandle_t handle, cudaStream_t stream) {
  if (handle == nullptr) return CUDNN_STATUS_BAD_PARAM;
  handle->stream = stream;
  return CUDNN_STATUS_SUCCESS;
}

MAXBATCH_DRY_ENTRY cudnnStatus_t cudnnGetStream(cudnnHandle_t handle, cudaStream_t* stream) {
  if (handle == nullptr || stream == nullptr) return CUDNN_STATUS_BAD_PARAM;
  *stream = handle->stream;
  return CUDNN_STATUS_SUCCESS;
}

// LibTorch compares it with its own CUDA. The real one would ask a runtime of its own, which finds no driver.
MAXBATCH_DRY_ENTRY std::size_t cudnnGetCudartVersion() { return CUDART_VERSION; }

MAXBATCH_DRY_ENTRY cudnnStatus_t cudnnQueryRuntimeError(cudnnHandle_t, cudnnStatus_t* status, cudnnErrQueryMode_t,
                                                        cudnnRuntimeTag_t*) {
  if (status == nullptr) return CUDNN_STATUS_BAD_PARAM;
  *status = CUDNN_STATUS_SUCCESS;  // no kernel ran that could have failed
  return CUDNN_STATUS_SUCCESS;
}
