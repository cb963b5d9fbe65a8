#include "dry_cuda/entry_point.hpp"
#include "error_names.hpp"
#include "thread_error.hpp"

#include <cuda_runtime_api.h>

namespace maxbatch::dry {
namespace {

thread_local cudaError_t last_error = cudaSuccess;

struct ErrorText {
  char const* name;
  char const* text;
};

ErrorText describe(cudaError_t error) noexcept {
  switch (static_cast<int>(error)) {
#define MAXBATCH_CASE(name, number, text) \
  case number: return {#name, text};
    MAXBATCH_CUDA_ERRORS(MAXBATCH_CASE)
#undef MAXBATCH_CASE
    default: return {"unrecognized error code", "unrecognized error code"};
  }
}

}  // namespace

cudaError_t finish(cudaError_t status) noexcept {
  if (status != cudaSuccess) { last_error = status; }
  return status;
}

}  // namespace maxbatch::dry

MAXBATCH_DRY_ENTRY cudaError_t cudaGetLastError() {
  auto const error = maxbatch::dry::last_error;
  maxbatch::dry::last_error = cudaSuccess;
  return error;
}
MAXBATCH_DRY_ENTRY cudaError_t cudaPeekAtLastError() { return maxbatch::dry::last_error; }
MAXBATCH_DRY_ENTRY char const* cudaGetErrorName(cudaError_t error) { return maxbatch::dry::describe(error).name; }
MAXBATCH_DRY_ENTRY char const* cudaGetErrorString(cudaError_t error) { return maxbatch::dry::describe(error).text; }
