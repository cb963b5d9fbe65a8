// cuBLASLt: handles, the choice of an algorithm, and the matrix product. Descriptors are the real library's: host memory.
#include "dry_cuda/entry_point.hpp"
#include "dry_cuda/libraries/calls.hpp"
#include "dry_cuda/libraries/real_library.hpp"

#include <cublasLt.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>

struct cublasLtContext {};

namespace maxbatch::dry {
namespace {

// What the algorithms in use need at most, for split-k reductions apart. LibTorch takes its whole limit whatever the algorithm
// says, so no memory depends on it there.
constexpr std::size_t kTypicalWorkspaceBytes = 4096;

std::size_t workspace_limit(cublasLtMatmulPreference_t preference) {
  std::uint64_t limit = 0;  // cuBLASLt's own default
  std::size_t written = 0;
  if (preference != nullptr) {
    auto const get = MAXBATCH_DRY_REAL(kCublasLt, cublasLtMatmulPreferenceGetAttribute);
    get(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &limit, sizeof limit, &written);
  }
  return static_cast<std::size_t>(limit);
}

cublasLtMatmulHeuristicResult_t usable_result(cublasLtMatmulAlgo_t const& algorithm, std::size_t workspace) {
  cublasLtMatmulHeuristicResult_t result{};
  result.algo = algorithm;
  result.workspaceSize = workspace;
  result.state = CUBLAS_STATUS_SUCCESS;
  result.wavesCount = 1.0F;
  return result;
}

}  // namespace
}  // namespace maxbatch::dry

using namespace maxbatch::dry;

MAXBATCH_DRY_ENTRY cublasStatus_t cublasLtCreate(cublasLtHandle_t* handle) {
  if (handle == nullptr) return CUBLAS_STATUS_INVALID_VALUE;
  *handle = new cublasLtContext;
  return CUBLAS_STATUS_SUCCESS;
}
// LibTorch passes its cuBLAS handle for one of cuBLASLt, as cuBLAS allows. Only what cublasLtCreate made comes here.
MAXBATCH_DRY_ENTRY cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle) {
  delete handle;
  return CUBLAS_STATUS_SUCCESS;
}

MAXBATCH_DRY_ENTRY cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t, cublasLtMatmulDesc_t,
                                                                 cublasLtMatrixLayout_t, cublasLtMatrixLayout_t,
                                                                 cublasLtMatrixLayout_t, cublasLtMatrixLayout_t,
                                                                 cublasLtMatmulPreference_t preference, int requested,
                                                                 cublasLtMatmulHeuristicResult_t results[],
                                                                 int* returned) {
  if (requested < 1 || results == nullptr || returned == nullptr) return CUBLAS_STATUS_INVALID_VALUE;
  results[0] = usable_result({}, std::min(workspace_limit(preference), kTypicalWorkspaceBytes));
  *returned = 1;
  return CUBLAS_STATUS_SUCCESS;
}

MAXBATCH_DRY_ENTRY cublasStatus_t cublasLtMatmulAlgoCheck(cublasLtHandle_t, cublasLtMatmulDesc_t,
                                                          cublasLtMatrixLayout_t, cublasLtMatrixLayout_t,
                                                          cublasLtMatrixLayout_t, cublasLtMatrixLayout_t,
                                                          cublasLtMatmulAlgo_t const* algorithm,
                                                          cublasLtMatmulHeuristicResult_t* result) {
  if (algorithm == nullptr || result == nullptr) return CUBLAS_STATUS_INVALID_VALUE;
  *result = usable_result(*algorithm, kTypicalWorkspaceBytes);
  return CUBLAS_STATUS_SUCCESS;
}

MAXBATCH_DRY_ENTRY cublasStatus_t cublasLtMatmul(cublasLtHandle_t, cublasLtMatmulDesc_t, void const*, void const*,
                                                 cublasLtMatrixLayout_t, void const*, cublasLtMatrixLayout_t,
                                                 void const*, void const*, cublasLtMatrixLayout_t, void*,
                                                 cublasLtMatrixLayout_t, cublasLtMatmulAlgo_t const*, void*,
                                                 std::size_t, cudaStream_t) {
  note_large_kernel({"cublasLtMatmul"});
  return CUBLAS_STATUS_SUCCESS;
}
