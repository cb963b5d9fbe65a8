// cuBLAS: handles, their modes, and copies. Arithmetic is answered by generated defaults.
#include "dry_cuda/entry_point.hpp"
#include "dry_cuda/libraries/calls.hpp"
#include "dry_cuda/libraries/cublas_handle.hpp"
#include "dry_cuda/libraries/real_library.hpp"

#include <cublas_api.h>
#include <cuda_runtime_api.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>

// Complete here and nowhere else: cuBLAS declares it, and leaves it to the library.
struct cublasContext {
  // Atomic, because LibTorch's handles pass from thread to thread through a pool, and nothing says that they may not be read
  // meanwhile.
  std::atomic<cudaStream_t> stream{nullptr};
  std::atomic<cublasPointerMode_t> pointer_mode{CUBLAS_POINTER_MODE_HOST};
  std::atomic<cublasMath_t> math_mode{CUBLAS_DEFAULT_MATH};
  std::atomic<cublasAtomicsMode_t> atomics_mode{CUBLAS_ATOMICS_NOT_ALLOWED};
  std::atomic<int> multiprocessor_target{0};
};

namespace maxbatch::dry {

bool results_are_on_host(cublasHandle_t handle) {
  return handle != nullptr && handle->pointer_mode == CUBLAS_POINTER_MODE_HOST;
}

namespace {

template <typename Value>
cublasStatus_t set(cublasHandle_t handle, std::atomic<Value> cublasContext::*member, Value value) {
  if (handle == nullptr) return CUBLAS_STATUS_NOT_INITIALIZED;
  handle->*member = value;
  return CUBLAS_STATUS_SUCCESS;
}

template <typename Value>
cublasStatus_t get(cublasHandle_t handle, std::atomic<Value> cublasContext::*member, Value* value) {
  if (handle == nullptr) return CUBLAS_STATUS_NOT_INITIALIZED;
  if (value == nullptr) return CUBLAS_STATUS_INVALID_VALUE;
  *value = handle->*member;
  return CUBLAS_STATUS_SUCCESS;
}

/// Copies `rows` x `columns` elements between column-major matrices, one of them on the card; a vector with an increment is a
/// matrix of one row. The stream orders nothing here: see runtime/copies.cpp.
cublasStatus_t copy_matrix(std::int64_t rows, std::int64_t columns, std::int64_t element_size, void const* from,
                           std::int64_t from_leading, void* to, std::int64_t to_leading, cudaMemcpyKind kind) {
  if (rows < 0 || columns < 0 || element_size <= 0 || from_leading < rows || to_leading < rows) {
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  if (rows == 0 || columns == 0) return CUBLAS_STATUS_SUCCESS;
  auto const bytes = [element_size](std::int64_t elements) {
    return static_cast<std::size_t>(elements * element_size);
  };
  bool const copied = cudaMemcpy2D(to, bytes(to_leading), from, bytes(from_leading), bytes(rows),
                                   static_cast<std::size_t>(columns), kind) == cudaSuccess;
  return copied ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_MAPPING_ERROR;
}

cublasStatus_t copy_vector(std::int64_t count, std::int64_t element_size, void const* from, std::int64_t from_increment,
                           void* to, std::int64_t to_increment, cudaMemcpyKind kind) {
  return copy_matrix(1, count, element_size, from, from_increment, to, to_increment, kind);
}

std::size_t bytes_of(cudaDataType type) {
  switch (type) {
    case CUDA_R_16F:
    case CUDA_R_16BF: return 2;
    case CUDA_R_32F:
    case CUDA_C_16F:
    case CUDA_C_16BF: return 4;
    case CUDA_R_64F:
    case CUDA_C_32F: return 8;
    default: return 16;
  }
}

/// A scalar product: bytes on the card, or a zero on the host, as is all that is read from a card.
cublasStatus_t scalar_product(cublasHandle_t handle, void* result, cudaDataType type) {
  if (handle == nullptr) return CUBLAS_STATUS_NOT_INITIALIZED;
  note_kernel();
  if (results_are_on_host(handle) && result != nullptr) std::memset(result, 0, bytes_of(type));
  return CUBLAS_STATUS_SUCCESS;
}

constexpr auto kToCard = cudaMemcpyHostToDevice;
constexpr auto kToHost = cudaMemcpyDeviceToHost;

}  // namespace
}  // namespace maxbatch::dry

using namespace maxbatch::dry;

MAXBATCH_DRY_ENTRY cublasStatus_t cublasCreate_v2(cublasHandle_t* handle) {
  if (handle == nullptr) return CUBLAS_STATUS_INVALID_VALUE;
  note_cublas_handle();
  *handle = new cublasContext;
  return CUBLAS_STATUS_SUCCESS;
}
MAXBATCH_DRY_ENTRY cublasStatus_t cublasDestroy_v2(cublasHandle_t handle) {
  if (handle == nullptr) return CUBLAS_STATUS_NOT_INITIALIZED;
  delete handle;
  return CUBLAS_STATUS_SUCCESS;
}

MAXBATCH_DRY_ENTRY cublasStatus_t cublasGetVersion_v2(cublasHandle_t handle, int* version) {
  if (handle == nullptr) return CUBLAS_STATUS_NOT_INITIALIZED;
  if (version == nullptr) return CUBLAS_STATUS_INVALID_VALUE;
  int parts[3] = {0, 0, 0};
  libraryPropertyType const types[3] = {MAJOR_VERSION, MINOR_VERSION, PATCH_LEVEL};
  for (int i = 0; i < 3; ++i) MAXBATCH_DRY_REAL(kCublas, cublasGetProperty)(types[i], &parts[i]);
  *version = parts[0] * 10000 + parts[1] * 100 + parts[2];  // as CUBLAS_VERSION
  return CUBLAS_STATUS_SUCCESS;
}

MAXBATCH_DRY_ENTRY cublasStatus_t cublasSetStream_v2(cublasHandle_t handle, cudaStream_t stream) {
  return set(handle, &cublasContext::stream, stream);
}
MAXBATCH_DRY_ENTRY cublasStatus_t cublasGetStream_v2(cublasHandle_t handle, cudaStream_t* stream) {
  return get(handle, &cublasContext::stream, stream);
}
MAXBATCH_DRY_ENTRY cublasStatus_t cublasSetPointerMode_v2(cublasHandle_t handle, cublasPointerMode_t mode) {
  return set(handle, &cublasContext::pointer_mode, mode);
}
MAXBATCH_DRY_ENTRY cublasStatus_t cublasGetPointerMode_v2(cublasHandle_t handle, cublasPointerMode_t* mode) {
  return get(handle, &cublasContext::pointer_mode, mode);
}
MAXBATCH_DRY_ENTRY cublasStatus_t cublasSetMathMode(cublasHandle_t handle, cublasMath_t mode) {
  return set(handle, &cublasContext::math_mode, mode);
}
MAXBATCH_DRY_ENTRY cublasStatus_t cublasGetMathMode(cublasHandle_t handle, cublasMath_t* mode) {
  return get(handle, &cublasContext::math_mode, mode);
}
MAXBATCH_DRY_ENTRY cublasStatus_t cublasSetAtomicsMode(cublasHandle_t handle, cublasAtomicsMode_t mode) {
  return set(handle, &cublasContext::atomics_mode, mode);
}
MAXBATCH_DRY_ENTRY cublasStatus_t cublasGetAtomicsMode(cublasHandle_t handle, cublasAtomicsMode_t* mode) {
  return get(handle, &cublasContext::atomics_mode, mode);
}
MAXBATCH_DRY_ENTRY cublasStatus_t cublasSetSmCountTarget(cublasHandle_t handle, int count) {
  return set(handle, &cublasContext::multiprocessor_target, count);
}
MAXBATCH_DRY_ENTRY cublasStatus_t cublasGetSmCountTarget(cublasHandle_t handle, int* count) {
  return get(handle, &cublasContext::multiprocessor_target, count);
}
// The caller keeps the workspace; whoever gives none leaves cuBLAS with its own, which is part of the handle's memory.
MAXBATCH_DRY_ENTRY cublasStatus_t cublasSetWorkspace_v2(cublasHandle_t handle, void*, std::size_t) {
  return handle == nullptr ? CUBLAS_STATUS_NOT_INITIALIZED : CUBLAS_STATUS_SUCCESS;
}

MAXBATCH_DRY_ENTRY cublasStatus_t cublasSetVector(int n, int size, void const* x, int incx, void* y, int incy) {
  return copy_vector(n, size, x, incx, y, incy, kToCard);
}
MAXBATCH_DRY_ENTRY cublasStatus_t cublasGetVector(int n, int size, void const* x, int incx, void* y, int incy) {
  return copy_vector(n, size, x, incx, y, incy, kToHost);
}
MAXBATCH_DRY_ENTRY cublasStatus_t cublasSetVectorAsync(int n, int size, void const* x, int incx, void* y, int incy,
                                                       cudaStream_t) {
  return copy_vector(n, size, x, incx, y, incy, kToCard);
}
MAXBATCH_DRY_ENTRY cublasStatus_t cublasGetVectorAsync(int n, int size, void const* x, int incx, void* y, int incy,
                                                       cudaStream_t) {
  return copy_vector(n, size, x, incx, y, incy, kToHost);
}
MAXBATCH_DRY_ENTRY cublasStatus_t cublasSetMatrix(int rows, int cols, int size, void const* a, int lda, void* b,
                                                  int ldb) {
  return copy_matrix(rows, cols, size, a, lda, b, ldb, kToCard);
}
MAXBATCH_DRY_ENTRY cublasStatus_t cublasGetMatrix(int rows, int cols, int size, void const* a, int lda, void* b,
                                                  int ldb) {
  return copy_matrix(rows, cols, size, a, lda, b, ldb, kToHost);
}
MAXBATCH_DRY_ENTRY cublasStatus_t cublasSetMatrixAsync(int rows, int cols, int size, void const* a, int lda, void* b,
                                                       int ldb, cudaStream_t) {
  return copy_matrix(rows, cols, size, a, lda, b, ldb, kToCard);
}
MAXBATCH_DRY_ENTRY cublasStatus_t cublasGetMatrixAsync(int rows, int cols, int size, void const* a, int lda, void* b,
                                                       int ldb, cudaStream_t) {
  return copy_matrix(rows, cols, size, a, lda, b, ldb, kToHost);
}

MAXBATCH_DRY_ENTRY cublasStatus_t cublasDotEx(cublasHandle_t handle, int, void const*, cudaDataType, int, void const*,
                                              cudaDataType, int, void* result, cudaDataType type, cudaDataType) {
  return scalar_product(handle, result, type);
}
MAXBATCH_DRY_ENTRY cublasStatus_t cublasDotcEx(cublasHandle_t handle, int, void const*, cudaDataType, int, void const*,
                                               cudaDataType, int, void* result, cudaDataType type, cudaDataType) {
  return scalar_product(handle, result, type);
}
