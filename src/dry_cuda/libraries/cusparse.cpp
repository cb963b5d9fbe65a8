// cuSPARSE: handles, and what its routines tell the host about the result. Descriptors are the real library's: host memory.
#include "dry_cuda/entry_point.hpp"
#include "dry_cuda/libraries/calls.hpp"
#include "dry_cuda/libraries/real_library.hpp"
#include "dry_cuda/libraries/sparse_scratch.hpp"
#include "dry_cuda/report/memory_sources.hpp"

#define DISABLE_CUSPARSE_DEPRECATED  // no warnings: what LibTorch still calls is answered
#include <cuda_runtime_api.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
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

/// How many products of two elements a product of sparse matrices has. The true count is decided by the data.
struct ProductCount {
  std::int64_t usual = 0;  ///< if the second one's rows are about equally full
  std::int64_t most = 0;   ///< if all elements of the first meet a row that is as full as it can be
};

ProductCount products_of(MatrixSize const& left, MatrixSize const& right) {
  std::int64_t const per_row = right.rows > 0 ? (right.nonzeros + right.rows - 1) / right.rows : 0;
  return {left.nonzeros * per_row, left.nonzeros * std::min(right.nonzeros, right.columns)};
}

struct ElementBytes {
  std::int64_t index = 0;
  std::int64_t value = 0;
};

std::int64_t bytes_of(cudaDataType type) {
  switch (type) {
    case CUDA_R_16F:
    case CUDA_R_16BF: return 2;
    case CUDA_R_64F:
    case CUDA_C_32F: return 8;
    case CUDA_C_64F: return 16;
    default: return 4;
  }
}

/// Of a matrix in compressed rows; nothing for one in another format.
std::optional<ElementBytes> element_bytes_of(cusparseConstSpMatDescr_t matrix) {
  MatrixSize size;
  void const* begins = nullptr;
  void const* indices = nullptr;
  void const* values = nullptr;
  cusparseIndexType_t begin_type{};
  cusparseIndexType_t index_type{};
  cusparseIndexBase_t base{};
  cudaDataType type{};
  cusparseFormat_t format{};
  if (MAXBATCH_DRY_REAL(kCusparse, cusparseSpMatGetFormat)(matrix, &format) != CUSPARSE_STATUS_SUCCESS ||
      format != CUSPARSE_FORMAT_CSR ||
      MAXBATCH_DRY_REAL(kCusparse, cusparseConstCsrGet)(matrix, &size.rows, &size.columns, &size.nonzeros, &begins,
                                                        &indices, &values, &begin_type, &index_type, &base,
                                                        &type) != CUSPARSE_STATUS_SUCCESS) {
    return std::nullopt;
  }
  return ElementBytes{index_type == CUSPARSE_INDEX_64I ? 8 : 4, bytes_of(type)};
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

// Note [Scratch of sparse products].
// measured/cusparse_sizes.txt is what an H200 said. The buffers are tables of where a block of the work begins.
std::int64_t blocks(std::int64_t nonzeros, std::int64_t of) { return (nonzeros + of - 1) / of; }

std::size_t scratch_of_vector_product(cusparseConstSpMatDescr_t matrix) {
  cusparseFormat_t format{};
  MAXBATCH_DRY_REAL(kCusparse, cusparseSpMatGetFormat)(matrix, &format);
  auto const nonzeros = size_of(matrix).nonzeros;
  auto const bytes =
      format == CUSPARSE_FORMAT_COO ? 540 + 16 * (nonzeros / 2048) : 4 * (blocks(nonzeros, 4096) + 1) + 3;
  return static_cast<std::size_t>(bytes);
}

MatrixSize size_of(cusparseConstDnMatDescr_t dense) {
  MatrixSize size;
  std::int64_t leading = 0;
  void const* values = nullptr;
  cudaDataType type{};
  cusparseOrder_t order{};
  MAXBATCH_DRY_REAL(kCusparse, cusparseConstDnMatGet)
  (dense, &size.rows, &size.columns, &leading, &values, &type, &order);
  return size;
}

std::size_t scratch_of_product(cusparseConstSpMatDescr_t matrix, cusparseConstDnMatDescr_t dense) {
  auto const columns = size_of(dense).columns;
  cusparseFormat_t format{};
  MAXBATCH_DRY_REAL(kCusparse, cusparseSpMatGetFormat)(matrix, &format);
  if (columns == 1) return scratch_of_vector_product(matrix);
  if (format == CUSPARSE_FORMAT_COO) return 0;
  return static_cast<std::size_t>(4 * blocks(size_of(matrix).nonzeros, 24) + 3);
}

/// Another format or algorithm than LibTorch has: nobody has asked a card for its scratch.
cusparseStatus_t refuse_unmeasured(char const* name) { return refuse(name, CUSPARSE_STATUS_NOT_SUPPORTED); }

/// The scratch of a triangular system with `sides` right sides.
cusparseStatus_t answer_system(char const* name, cusparseConstSpMatDescr_t matrix, std::int64_t sides,
                               std::size_t* bytes) {
  auto const elements = element_bytes_of(matrix);
  if (!elements) return refuse_unmeasured(name);
  auto const size = size_of(matrix);
  *bytes = static_cast<std::size_t>(
      scratch_of(SparseSystem{size.rows, size.nonzeros, sides, elements->index, elements->value}));
  expect_scratch(certain(MemorySource::rule, static_cast<std::int64_t>(*bytes)));
  return CUSPARSE_STATUS_SUCCESS;
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

MAXBATCH_DRY_ENTRY cusparseStatus_t cusparseSpMV_bufferSize(cusparseHandle_t, cusparseOperation_t, void const*,
                                                            cusparseConstSpMatDescr_t matrix, cusparseConstDnVecDescr_t,
                                                            void const*, cusparseDnVecDescr_t, cudaDataType,
                                                            cusparseSpMVAlg_t, std::size_t* bytes) {
  if (bytes == nullptr) return CUSPARSE_STATUS_INVALID_VALUE;
  *bytes = scratch_of_vector_product(matrix);
  expect_scratch(certain(MemorySource::rule, static_cast<std::int64_t>(*bytes)));
  return CUSPARSE_STATUS_SUCCESS;
}
MAXBATCH_DRY_ENTRY cusparseStatus_t cusparseSpMM_bufferSize(cusparseHandle_t, cusparseOperation_t, cusparseOperation_t,
                                                            void const*, cusparseConstSpMatDescr_t matrix,
                                                            cusparseConstDnMatDescr_t dense, void const*,
                                                            cusparseDnMatDescr_t, cudaDataType, cusparseSpMMAlg_t,
                                                            std::size_t* bytes) {
  if (bytes == nullptr) return CUSPARSE_STATUS_INVALID_VALUE;
  *bytes = scratch_of_product(matrix, dense);
  expect_scratch(certain(MemorySource::rule, static_cast<std::int64_t>(*bytes)));
  return CUSPARSE_STATUS_SUCCESS;
}
MAXBATCH_DRY_ENTRY cusparseStatus_t cusparseSDDMM_bufferSize(cusparseHandle_t, cusparseOperation_t, cusparseOperation_t,
                                                             void const*, cusparseConstDnMatDescr_t,
                                                             cusparseConstDnMatDescr_t, void const*,
                                                             cusparseSpMatDescr_t, cudaDataType, cusparseSDDMMAlg_t,
                                                             std::size_t* bytes) {
  if (bytes == nullptr) return CUSPARSE_STATUS_INVALID_VALUE;
  *bytes = 1;
  return CUSPARSE_STATUS_SUCCESS;
}
// Sorting: the keys and where they were, twice, and up to 1.3 KB that the rule leaves out.
MAXBATCH_DRY_ENTRY cusparseStatus_t cusparseXcsrsort_bufferSizeExt(cusparseHandle_t, int, int, int nonzeros, int const*,
                                                                   int const*, std::size_t* bytes) {
  if (bytes == nullptr || nonzeros < 0) return CUSPARSE_STATUS_INVALID_VALUE;
  *bytes = static_cast<std::size_t>(nonzeros) * 20 + 1024;
  expect_scratch(certain(MemorySource::estimate, static_cast<std::int64_t>(*bytes)));
  return CUSPARSE_STATUS_SUCCESS;
}
MAXBATCH_DRY_ENTRY cusparseStatus_t cusparseXcoosort_bufferSizeExt(cusparseHandle_t, int, int, int nonzeros, int const*,
                                                                   int const*, std::size_t* bytes) {
  if (bytes == nullptr || nonzeros < 0) return CUSPARSE_STATUS_INVALID_VALUE;
  *bytes = static_cast<std::size_t>(nonzeros) * 16 + 1024;
  expect_scratch(certain(MemorySource::estimate, static_cast<std::int64_t>(*bytes)));
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

// The product of two sparse matrices asks for two buffers, and then for the size of its result: Note [Scratch of products of two
// sparse matrices]. How many products of two elements there are depends on the data, so the second buffer comes with an interval.
MAXBATCH_DRY_ENTRY cusparseStatus_t cusparseSpGEMM_workEstimation(
    cusparseHandle_t, cusparseOperation_t, cusparseOperation_t, void const*, cusparseConstSpMatDescr_t a,
    cusparseConstSpMatDescr_t, void const*, cusparseSpMatDescr_t, cudaDataType, cusparseSpGEMMAlg_t algorithm,
    cusparseSpGEMMDescr_t, std::size_t* bytes, void* buffer) {
  auto const elements = element_bytes_of(a);
  if (!elements || algorithm != CUSPARSE_SPGEMM_DEFAULT) return refuse_unmeasured("cusparseSpGEMM_workEstimation");
  if (buffer != nullptr || bytes == nullptr) return CUSPARSE_STATUS_SUCCESS;
  auto const left = size_of(a);
  *bytes =
      static_cast<std::size_t>(scratch_of_estimation({left.rows, left.nonzeros, 0, elements->index, elements->value}));
  expect_scratch(certain(MemorySource::rule, static_cast<std::int64_t>(*bytes)));
  return CUSPARSE_STATUS_SUCCESS;
}
MAXBATCH_DRY_ENTRY cusparseStatus_t cusparseSpGEMM_compute(cusparseHandle_t, cusparseOperation_t, cusparseOperation_t,
                                                           void const*, cusparseConstSpMatDescr_t a,
                                                           cusparseConstSpMatDescr_t b, void const*,
                                                           cusparseSpMatDescr_t c, cudaDataType,
                                                           cusparseSpGEMMAlg_t algorithm, cusparseSpGEMMDescr_t,
                                                           std::size_t* bytes, void* buffer) {
  auto const elements = element_bytes_of(a);
  if (!elements || algorithm != CUSPARSE_SPGEMM_DEFAULT) return refuse_unmeasured("cusparseSpGEMM_compute");
  auto const left = size_of(a);
  auto const right = size_of(b);
  auto const count = products_of(left, right);
  if (buffer == nullptr && bytes != nullptr) {
    auto const scratch = [&](std::int64_t products) {
      return scratch_of_computation({left.rows, left.nonzeros, products, elements->index, elements->value});
    };
    ScratchAnswer const answer{MemorySource::estimate, scratch(count.usual), scratch(0), scratch(count.most)};
    *bytes = static_cast<std::size_t>(answer.bytes);
    expect_scratch(answer);
    return CUSPARSE_STATUS_SUCCESS;
  }
  maxbatch_dry_note_defaulted("cusparseSpGEMM_compute");  // the count of the result's elements
  note_kernel();
  product_sizes().remember(c, std::min(left.rows * right.columns, count.usual));
  return CUSPARSE_STATUS_SUCCESS;
}

MAXBATCH_DRY_ENTRY cusparseStatus_t cusparseSpSV_bufferSize(cusparseHandle_t, cusparseOperation_t, void const*,
                                                            cusparseConstSpMatDescr_t matrix, cusparseConstDnVecDescr_t,
                                                            cusparseDnVecDescr_t, cudaDataType, cusparseSpSVAlg_t,
                                                            cusparseSpSVDescr_t, std::size_t* bytes) {
  if (bytes == nullptr) return CUSPARSE_STATUS_INVALID_VALUE;
  return answer_system("cusparseSpSV_bufferSize", matrix, 1, bytes);
}
MAXBATCH_DRY_ENTRY cusparseStatus_t cusparseSpSM_bufferSize(cusparseHandle_t, cusparseOperation_t,
                                                            cusparseOperation_t sides_operation, void const*,
                                                            cusparseConstSpMatDescr_t matrix,
                                                            cusparseConstDnMatDescr_t sides, cusparseDnMatDescr_t,
                                                            cudaDataType, cusparseSpSMAlg_t, cusparseSpSMDescr_t,
                                                            std::size_t* bytes) {
  if (bytes == nullptr) return CUSPARSE_STATUS_INVALID_VALUE;
  auto const dense = size_of(sides);
  auto const count = sides_operation == CUSPARSE_OPERATION_NON_TRANSPOSE ? dense.columns : dense.rows;
  return answer_system("cusparseSpSM_bufferSize", matrix, count, bytes);
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
