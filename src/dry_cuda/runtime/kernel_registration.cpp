// What the code that nvcc makes calls when a module is loaded, and around a <<<launch>>>. Declared in crt/host_runtime.h,
// which only nvcc's output includes.
#include "dry_cuda/entry_point.hpp"
#include "kernel_registry.hpp"
#include "thread_error.hpp"

#include <cuda_runtime_api.h>

#include <mutex>
#include <shared_mutex>
#include <string>
#include <unordered_map>
#include <vector>

namespace maxbatch::dry {
namespace {

struct Kernel {
  std::string name;
  int most_dynamic_shared_bytes = 49152;
};

struct Registry {
  std::shared_mutex mutex;
  std::unordered_map<void const*, Kernel> kernels;
};

Registry& registry() {
  static auto* const all = new Registry;  // modules come and go before and after our own statics
  return *all;
}

struct Configuration {
  dim3 grid;
  dim3 block;
  std::size_t shared_bytes = 0;
  void* stream = nullptr;
};

thread_local std::vector<Configuration> configurations;

}  // namespace

void register_kernel(void const* host_function, char const* name) {
  std::unique_lock<std::shared_mutex> const lock(registry().mutex);
  registry().kernels[host_function].name = name == nullptr ? "" : name;
}

cudaError_t check_kernel(void const* host_function) {
  std::shared_lock<std::shared_mutex> const lock(registry().mutex);
  if (registry().kernels.count(host_function) == 1) { return cudaSuccess; }
  // As measured: without any module the runtime does not get as far as looking for the function.
  return registry().kernels.empty() ? cudaErrorInvalidResourceHandle : cudaErrorInvalidDeviceFunction;
}

void set_most_dynamic_shared_bytes(void const* host_function, int bytes) {
  std::unique_lock<std::shared_mutex> const lock(registry().mutex);
  auto const found = registry().kernels.find(host_function);
  if (found != registry().kernels.end()) { found->second.most_dynamic_shared_bytes = bytes; }
}

int most_dynamic_shared_bytes(void const* host_function) {
  std::shared_lock<std::shared_mutex> const lock(registry().mutex);
  auto const found = registry().kernels.find(host_function);
  return found == registry().kernels.end() ? 49152 : found->second.most_dynamic_shared_bytes;
}

KernelResources resources_of(void const* host_function) {
  std::shared_lock<std::shared_mutex> const lock(registry().mutex);
  auto const found = registry().kernels.find(host_function);
  return found == registry().kernels.end() ? KernelResources{} : kernel_resources(found->second.name);
}

}  // namespace maxbatch::dry

using namespace maxbatch::dry;  // NOLINT(google-build-using-namespace): entry points live outside

MAXBATCH_DRY_ENTRY void** __cudaRegisterFatBinary(void*) {
  static void* handle = nullptr;
  return &handle;
}
MAXBATCH_DRY_ENTRY void __cudaRegisterFatBinaryEnd(void**) {}
MAXBATCH_DRY_ENTRY void __cudaUnregisterFatBinary(void**) {}
MAXBATCH_DRY_ENTRY char __cudaInitModule(void**) { return 1; }
MAXBATCH_DRY_ENTRY void __cudaRegisterFunction(void**, char const* host_function, char*, char const* name, int, uint3*,
                                               uint3*, dim3*, dim3*, int*) {
  register_kernel(host_function, name);
}
MAXBATCH_DRY_ENTRY void __cudaRegisterVar(void**, char*, char*, char const*, int, std::size_t, int, int) {}
MAXBATCH_DRY_ENTRY void __cudaRegisterManagedVar(void**, void**, char*, char const*, int, std::size_t, int, int) {}

MAXBATCH_DRY_ENTRY unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, std::size_t shared_bytes,
                                                        CUstream_st* stream) {
  configurations.push_back({grid, block, shared_bytes, stream});
  return 0;
}
MAXBATCH_DRY_ENTRY cudaError_t __cudaPopCallConfiguration(dim3* grid, dim3* block, std::size_t* shared_bytes,
                                                          void* stream) {
  if (configurations.empty()) { return finish(cudaErrorMissingConfiguration); }
  auto const configuration = configurations.back();
  configurations.pop_back();
  *grid = configuration.grid;
  *block = configuration.block;
  *shared_bytes = configuration.shared_bytes;
  *static_cast<void**>(stream) = configuration.stream;
  return cudaSuccess;
}
/// A kernel's handle is its host function.
MAXBATCH_DRY_ENTRY cudaError_t __cudaGetKernel(cudaKernel_t* kernel, void const* host_function) {
  if (auto const status = check_kernel(host_function); status != cudaSuccess) { return finish(status); }
  *kernel = static_cast<cudaKernel_t>(const_cast<void*>(host_function));
  return cudaSuccess;
}
