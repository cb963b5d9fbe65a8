// Calls of the runtime that a dry card refuses by name: another process, or a tool, would have to be there.
#include "dry_cuda/entry_point.hpp"
#include "dry_cuda/report/call_notes.hpp"
#include "thread_error.hpp"

#include <cuda_runtime_api.h>

using namespace maxbatch::dry;  // NOLINT(google-build-using-namespace): entry points live outside

MAXBATCH_DRY_ENTRY cudaError_t cudaIpcGetMemHandle(cudaIpcMemHandle_t*, void*) {
  return finish(refuse("cudaIpcGetMemHandle", cudaErrorNotSupported));
}
MAXBATCH_DRY_ENTRY cudaError_t cudaIpcOpenMemHandle(void**, cudaIpcMemHandle_t, unsigned) {
  return finish(refuse("cudaIpcOpenMemHandle", cudaErrorNotSupported));
}
MAXBATCH_DRY_ENTRY cudaError_t cudaIpcCloseMemHandle(void*) {
  return finish(refuse("cudaIpcCloseMemHandle", cudaErrorNotSupported));
}
MAXBATCH_DRY_ENTRY cudaError_t cudaIpcGetEventHandle(cudaIpcEventHandle_t*, cudaEvent_t) {
  return finish(refuse("cudaIpcGetEventHandle", cudaErrorNotSupported));
}
MAXBATCH_DRY_ENTRY cudaError_t cudaIpcOpenEventHandle(cudaEvent_t*, cudaIpcEventHandle_t) {
  return finish(refuse("cudaIpcOpenEventHandle", cudaErrorNotSupported));
}
MAXBATCH_DRY_ENTRY cudaError_t cudaDeviceReset() { return finish(refuse("cudaDeviceReset", cudaErrorNotSupported)); }

// A profiler may be told to start and stop; it finds no kernels. (cuda_profiler_api.h, which declares these, does not come
// with LibTorch.)
MAXBATCH_DRY_ENTRY cudaError_t cudaProfilerStart() { return finish(ready()); }
MAXBATCH_DRY_ENTRY cudaError_t cudaProfilerStop() { return finish(ready()); }
