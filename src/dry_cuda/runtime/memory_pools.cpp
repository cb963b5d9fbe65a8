#include "dry_cuda/entry_point.hpp"
#include "dry_cuda/report/call_notes.hpp"
#include "thread_error.hpp"

#include <cuda_runtime_api.h>

#include <cstdint>

namespace maxbatch::dry {
namespace {

cudaMemPool_t default_pool() {
  static char pool = 0;
  return reinterpret_cast<cudaMemPool_t>(&pool);
}

}  // namespace
}  // namespace maxbatch::dry

using namespace maxbatch::dry;  // NOLINT(google-build-using-namespace): entry points live outside

// The default pool keeps nothing: what is freed goes straight back to the card.
MAXBATCH_DRY_ENTRY cudaError_t cudaDeviceGetDefaultMemPool(cudaMemPool_t* pool, int) {
  *pool = default_pool();
  return finish(ready());
}
MAXBATCH_DRY_ENTRY cudaError_t cudaDeviceGetMemPool(cudaMemPool_t* pool, int) {
  *pool = default_pool();
  return finish(ready());
}
MAXBATCH_DRY_ENTRY cudaError_t cudaMemPoolGetAttribute(cudaMemPool_t, cudaMemPoolAttr attribute, void* value) {
  if (value == nullptr) { return finish(cudaErrorInvalidValue); }
  switch (attribute) {
    case cudaMemPoolReuseFollowEventDependencies:
    case cudaMemPoolReuseAllowOpportunistic:
    case cudaMemPoolReuseAllowInternalDependencies: *static_cast<int*>(value) = 1; break;
    default: *static_cast<std::uint64_t*>(value) = 0; break;
  }
  return finish(ready());
}
MAXBATCH_DRY_ENTRY cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t, cudaMemPoolAttr, void*) {
  return finish(ready());
}
MAXBATCH_DRY_ENTRY cudaError_t cudaMemPoolSetAccess(cudaMemPool_t, cudaMemAccessDesc const*, std::size_t) {
  return finish(ready());
}
MAXBATCH_DRY_ENTRY cudaError_t cudaMemPoolTrimTo(cudaMemPool_t, std::size_t) { return finish(ready()); }
