// cuSOLVER's handle. Factorisations are answered by generated defaults; parameter objects are the real library's.
#include "dry_cuda/entry_point.hpp"

#include <cuda_runtime_api.h>

#include <atomic>

#include <cusolverDn.h>

struct cusolverDnContext {
  std::atomic<cudaStream_t> stream{nullptr};
  std::atomic<cusolverDeterministicMode_t> deterministic_mode{CUSOLVER_DETERMINISTIC_RESULTS};
};

MAXBATCH_DRY_ENTRY cusolverStatus_t cusolverDnCreate(cusolverDnHandle_t* handle) {
  if (handle == nullptr) return CUSOLVER_STATUS_INVALID_VALUE;
  *handle = new cusolverDnContext;
  return CUSOLVER_STATUS_SUCCESS;
}
MAXBATCH_DRY_ENTRY cusolverStatus_t cusolverDnDestroy(cusolverDnHandle_t handle) {
  delete handle;
  return CUSOLVER_STATUS_SUCCESS;
}
MAXBATCH_DRY_ENTRY cusolverStatus_t cusolverDnSetStream(cusolverDnHandle_t handle, cudaStream_t stream) {
  if (handle == nullptr) return CUSOLVER_STATUS_NOT_INITIALIZED;
  handle->stream = stream;
  return CUSOLVER_STATUS_SUCCESS;
}
MAXBATCH_DRY_ENTRY cusolverStatus_t cusolverDnGetStream(cusolverDnHandle_t handle, cudaStream_t* stream) {
  if (handle == nullptr) return CUSOLVER_STATUS_NOT_INITIALIZED;
  *stream = handle->stream;
  return CUSOLVER_STATUS_SUCCESS;
}
MAXBATCH_DRY_ENTRY cusolverStatus_t cusolverDnSetDeterministicMode(cusolverDnHandle_t handle,
                                                                   cusolverDeterministicMode_t mode) {
  if (handle == nullptr) return CUSOLVER_STATUS_NOT_INITIALIZED;
  handle->deterministic_mode = mode;
  return CUSOLVER_STATUS_SUCCESS;
}
MAXBATCH_DRY_ENTRY cusolverStatus_t cusolverDnGetDeterministicMode(cusolverDnHandle_t handle,
                                                                   cusolverDeterministicMode_t* mode) {
  if (handle == nullptr) return CUSOLVER_STATUS_NOT_INITIALIZED;
  *mode = handle->deterministic_mode;
  return CUSOLVER_STATUS_SUCCESS;
}
