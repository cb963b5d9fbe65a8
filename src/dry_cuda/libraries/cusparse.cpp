// cuSPARSE: handles, and what its routines tell the host about the result. Descriptors are the real library's: host memory.
#include "dry_cuda/entry_point.hpp"
#include "dry_cuda/libraries/calls.hpp"
#include "dry_cuda/libraries/real_library.hpp"

#define DISABLE_CUSPARSE_DEPRECATED  // no warnings: what LibTorch still calls is answered
#include <cuda_runtime_api.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <unordered_map>

#include <cusparse.h>

struct cusparseContext {
  std::atomic<cudaStream_t> stream{nullptr};
  std::atomic<cusparsePointerMode_t> pointer_mode{CUSPARSE_POINTER_MODE_HOST};
};

namespace maxbatch::dry {
namespace {

/// Gives a scalar to wherever the handle says that scalars are.
void tell(cusparseHandle_t handle, int* where, int value) {
  if (where == nullptr) return;
  if (handle->pointer_mode == CUSPARSE_POINTER_MODE_HOST) {
    *where = value;
  } else {
    remember_bytes(where, &value, sizeof value);
  }
}

struct MatrixSize {
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  std::int64_t nonzeros = 0;
};

MatrixSize size_of(cusparseConstSpMatDescr_t matrix) {
  MatrixSize size;
  MAXBATCH_DRY_REAL(kCusparse, cusparseSpMatGetSize)(matrix, &size.rows, &size.columns, &size.nonzeros);
  return size;
}

/// How many elements a product of sparse matrices has at most, if the second one's rows are about equally full. The true count
/// is decided by the data.
std::int64_t most_nonzeros_of_product(cusparseConstSpMatDescr_t a, cusparseConstSpMatDescr_t b) {
  auto const left = size_of(a);
  auto const right = size_of(b);
  std::int64_t const per_row = right.rows > 0 ? (right.nonzeros + right.rows - 1) / right.rows : 0;
  return std::min(left.rows * right.columns, left.nonzeros * per_row);
}

/// Products whose count of elements was decided here: the descriptor does not know it.
class ProductSizes {
 public:
  void remember(cusparseConstSpMatDescr_t product, std::int64_t nonzeros) {
    std::lock_guard<std::mutex> const lock(mutex_);
    nonzeros_[product] = nonzeros;
  }
  void forget(cusparseConstSpMatDescr_t product) {
    std::lock_guard<std::mutex> const lock(mutex_);
    nonzeros_.erase(product);
  }
  std::int64_t find(cusparseConstSpMatDescr_t product, std::int64_t otherwise) const {
    std::lock_guard<std::mutex> const lock(mutex_);
    auto const found = nonzeros_.find(product);
    return found == nonzeros_.end() ? otherwise : found->second;
  }

 private:
  mutable std::mutex mutex_;
  std::unordered_map<cusparseConstSpMatDescr_t, std::int64_t> nonzeros_;
};

ProductSizes& product_sizes() {
  static auto* const sizes = new ProductSizes;
  return *sizes;
}

}  // namespace
}  // namespace maxbatch::dry

using namespace maxbatch::dry;

MAXBATCH_DRY_ENTRY cusparseStatus_t cusparseCreate(cusparseHandle_t* handle) {
  if (handle == nullptr) return CUSPARSE_STATUS_INVALID_VALUE;
  *handle = new cusparseContext;
  return CUSPARSE_STATUS_SUCCESS;
}
MAXBATCH_DRY_ENTRY cusparseStatus_t cusparseDestroy(cusparseHandle_t handle) {
  delete handle;
  return CUSPARSE_STATUS_SUCCESS;
}
MAXBATCH_DRY_ENTRY cusparseStatus_t cusparseGetVersion(cusparseHandle_t handle, int* version) {
  if (handle == nullptr) return CUSPARSE_STATUS_NOT_INITIALIZED;
  *version = CUSPARSE_VERSION;
  return CUSPARSE_STATUS_SUCCESS;
}
MAXBATCH_DRY_ENTRY cusparseStatus_t cusparseSetStream(cusparseHandle_t handle, cudaStream_t stream) {
  if (handle == nullptr) return CUSPARSE_STATUS_NOT_INITIALIZED;
  handle->stream = stream;
  return CUSPARSE_STATUS_SUCCESS;
}
MAXBATCH_DRY_ENTRY cusparseStatus_t cusparseGetStream(cusparseHandle_t handle, cudaStream_t* stream) {
  if (handle == nullptr) return CUSPARSE_STATUS_NOT_INITIALIZED;
  *stream = handle->stream;
  return CUSPARSE_STATUS_SUCCESS;
}
MAXBATCH_DRY_ENTRY cusparseStatus_t cusparseSetPointerMode(cusparseHandle_t handle, cusparsePointerMode_t mode) {
  if (handle == nullptr) return CUSPARSE_STATUS_NOT_INITIALIZED;
  handle->pointer_mode = mode;
  return CUSPARSE_STATUS_SUCCESS;
}
MAXBATCH_DRY_ENTRY cusparseStatus_t cusparseGetPointerMode(cusparseHandle_t handle, cusparsePointerMode_t* mode) {
  if (handle == nullptr) return CUSPARSE_STATUS_NOT_INITIALIZED;
  *mode = handle->pointer_mode;
  return CUSPARSE_STATUS_SUCCESS;
}

// No pivot is zero: the triangular solver goes on.
MAXBATCH_DRY_ENTRY cusparseStatus_t cusparseXbsrsm2_zeroPivot(cusparseHandle_t handle, bsrsm2Info_t, int* position) {
  if (handle == nullptr) return CUSPARSE_STATUS_NOT_INITIALIZED;
  tell(handle, position, -1);
  return CUSPARSE_STATUS_SUCCESS;
}
MAXBATCH_DRY_ENTRY cusparseStatus_t cusparseXbsrsv2_zeroPivot(cusparseHandle_t handle, bsrsv2Info_t, int* position) {
  if (handle == nullptr) return CUSPARSE_STATUS_NOT_INITIALIZED;
  tell(handle, position, -1);
  return CUSPARSE_STATUS_SUCCESS;
}

// The sum of two sparse matrices: the largest that it can be, as if no element of one met one of the other.
MAXBATCH_DRY_ENTRY cusparseStatus_t cusparseXcsrgeam2Nnz(cusparseHandle_t handle, int rows, int columns,
                                                         cusparseMatDescr_t, int nonzeros_a, int const*, int const*,
                                                         cusparseMatDescr_t, int nonzeros_b, int const*, int const*,
                                                         cusparseMatDescr_t, int*, int* nonzeros, void*) {
  if (handle == nullptr) return CUSPARSE_STATUS_NOT_INITIALIZED;
  maxbatch_dry_note_defaulted("cusparseXcsrgeam2Nnz");
  note_kernel();
  auto const dense = static_cast<std::int64_t>(rows) * columns;
  tell(
      handle, nonzeros,
      static_cast<int>(std::min(dense, static_cast<std::int64_t>(nonzeros_a) + static_cast<std::int64_t>(nonzeros_b))));
  return CUSPARSE_STATUS_SUCCESS;
}

// The product of two sparse matrices asks for two buffers, and then for the size of its result.
MAXBATCH_DRY_ENTRY cusparseStatus_t cusparseSpGEMM_workEstimation(cusparseHandle_t, cusparseOperation_t,
                                                                  cusparseOperation_t, void const*,
                                                                  cusparseConstSpMatDescr_t, cusparseConstSpMatDescr_t,
                                                                  void const*, cusparseSpMatDescr_t, cudaDataType,
                                                                  cusparseSpGEMMAlg_t, cusparseSpGEMMDescr_t,
                                                                  std::size_t* bytes, void* buffer) {
  maxbatch_dry_note_defaulted("cusparseSpGEMM_workEstimation");
  if (buffer == nullptr && bytes != nullptr) *bytes = 0;
  return CUSPARSE_STATUS_SUCCESS;
}
MAXBATCH_DRY_ENTRY cusparseStatus_t cusparseSpGEMM_compute(cusparseHandle_t, cusparseOperation_t, cusparseOperation_t,
                                                           void const*, cusparseConstSpMatDescr_t a,
                                                           cusparseConstSpMatDescr_t b, void const*,
                                                           cusparseSpMatDescr_t c, cudaDataType, cusparseSpGEMMAlg_t,
                                                           cusparseSpGEMMDescr_t, std::size_t* bytes, void* buffer) {
  maxbatch_dry_note_defaulted("cusparseSpGEMM_compute");
  if (buffer == nullptr && bytes != nullptr) *bytes = 0;
  note_kernel();
  product_sizes().remember(c, most_nonzeros_of_product(a, b));
  return CUSPARSE_STATUS_SUCCESS;
}
MAXBATCH_DRY_ENTRY cusparseStatus_t cusparseSpMatGetSize(cusparseConstSpMatDescr_t matrix, std::int64_t* rows,
                                                         std::int64_t* columns, std::int64_t* nonzeros) {
  auto const status = MAXBATCH_DRY_REAL(kCusparse, cusparseSpMatGetSize)(matrix, rows, columns, nonzeros);
  if (status == CUSPARSE_STATUS_SUCCESS) *nonzeros = product_sizes().find(matrix, *nonzeros);
  return status;
}
MAXBATCH_DRY_ENTRY cusparseStatus_t cusparseDestroySpMat(cusparseConstSpMatDescr_t matrix) {
  product_sizes().forget(matrix);
  return MAXBATCH_DRY_REAL(kCusparse, cusparseDestroySpMat)(matrix);
}
