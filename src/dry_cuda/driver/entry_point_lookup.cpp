#include "dry_cuda/entry_point.hpp"
#include "dry_cuda/report/call_notes.hpp"
#include "dry_cuda/runtime/thread_error.hpp"

#include <cuda.h>
#include <cuda_runtime_api.h>

#include <cstring>
#include <string>

#include <dlfcn.h>

namespace maxbatch::dry {
namespace {

/// This library, whatever else has the same symbols.
void* self() {
  static void* const handle = [] {
    Dl_info info{};
    if (dladdr(reinterpret_cast<void*>(&finish), &info) == 0) { return static_cast<void*>(nullptr); }
    return dlopen(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
  }();
  return handle;
}

/// cuda.h renames a function whose signature has changed: cuMemAlloc is cuMemAlloc_v2. Callers ask for the plain name, and
/// get the newest one that we have.
void* find_driver_function(char const* name) {
  if (self() == nullptr || std::strncmp(name, "cu", 2) != 0) { return nullptr; }
  for (auto const* const suffix : {"_v4", "_v3", "_v2", ""}) {
    if (auto* const function = dlsym(self(), (std::string(name) + suffix).c_str())) { return function; }
  }
  return nullptr;
}

cudaError_t look_up(char const* name, void** function, cudaDriverEntryPointQueryResult* result) {
  if (name == nullptr || function == nullptr) { return cudaErrorInvalidValue; }
  *function = find_driver_function(name);
  if (*function == nullptr) { note_missing_entry_point(name); }
  if (result != nullptr) {
    *result = *function == nullptr ? cudaDriverEntryPointSymbolNotFound : cudaDriverEntryPointSuccess;
  }
  return cudaSuccess;
}

}  // namespace
}  // namespace maxbatch::dry

using namespace maxbatch::dry;  // NOLINT(google-build-using-namespace): entry points live outside

MAXBATCH_DRY_ENTRY cudaError_t cudaGetDriverEntryPointByVersion(char const* name, void** function, unsigned,
                                                                unsigned long long,
                                                                cudaDriverEntryPointQueryResult* result) {
  return finish(look_up(name, function, result));
}
MAXBATCH_DRY_ENTRY CUresult cuGetProcAddress(char const* name, void** function, int, cuuint64_t,
                                             CUdriverProcAddressQueryResult* result) {
  if (name == nullptr || function == nullptr) { return CUDA_ERROR_INVALID_VALUE; }
  *function = find_driver_function(name);
  if (*function == nullptr) { note_missing_entry_point(name); }
  if (result != nullptr) {
    *result = *function == nullptr ? CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND : CU_GET_PROC_ADDRESS_SUCCESS;
  }
  return *function == nullptr ? CUDA_ERROR_NOT_FOUND : CUDA_SUCCESS;
}

/// Private tables: libraries look for them as they are loaded and do without. We have none and imitate none. No call that
/// the program made, so it is not announced on standard error.
MAXBATCH_DRY_ENTRY CUresult cuGetExportTable(void const** table, CUuuid const*) {
  if (table != nullptr) { *table = nullptr; }
  note_missing_entry_point("cuGetExportTable");
  return CUDA_ERROR_NOT_SUPPORTED;
}
