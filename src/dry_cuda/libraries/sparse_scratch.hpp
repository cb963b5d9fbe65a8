#pragma once

#include <cstdint>

namespace maxbatch::dry {

/// A product of two sparse matrices in rows, and what decides its scratch memory.
struct SparseProduct {
  std::int64_t rows = 0;      ///< of the first
  std::int64_t nonzeros = 0;  ///< of the first
  std::int64_t products =
      0;  ///< of two elements: the sum, over the elements of the first, of the elements in the second's row
  std::int64_t index_bytes = 4;
  std::int64_t value_bytes = 4;
};

/// What cusparseSpGEMM_workEstimation wants. `products` does not matter.  Units: bytes.
std::int64_t scratch_of_estimation(SparseProduct const& product);

/// What cusparseSpGEMM_compute wants.  Units: bytes.
std::int64_t scratch_of_computation(SparseProduct const& product);

/// A triangular system with a sparse matrix.
struct SparseSystem {
  std::int64_t rows = 0;
  std::int64_t nonzeros = 0;
  std::int64_t sides = 1;  ///< right sides
  std::int64_t index_bytes = 4;
  std::int64_t value_bytes = 4;
};

/// What cusparseSpSV_bufferSize and, for several right sides, cusparseSpSM_bufferSize say.  Units: bytes.
std::int64_t scratch_of(SparseSystem const& system);

}  // namespace maxbatch::dry
