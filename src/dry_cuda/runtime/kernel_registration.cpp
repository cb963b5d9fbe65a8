// What the code that nvcc makes calls when a module is loaded, and around a <<<launch>>>. Declared in crt/host_runtime.h,
// which only nvcc's output includes.
#include "asserting_kernels.hpp"
#include "dry_cuda/activation/environment.hpp"
#include "dry_cuda/entry_point.hpp"
#include "kernel_registry.hpp"
#include "thread_error.hpp"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <atomic>
#include <deque>
#include <mutex>
#include <optional>
#include <shared_mutex>
#include <string>
#include <unordered_map>
#include <vector>

namespace maxbatch::dry {
namespace {

struct Module;

struct Kernel {
  std::string name;
  Module* module = nullptr;
  int most_dynamic_shared_bytes = 49152;
  std::atomic<std::uint32_t> launched_on{0};  // a bit for each device
};
static_assert(kMostDevices <= 32, "a bit for each device");

/// What was compiled together, and is registered together: a fat binary.
struct Module {
  std::vector<Kernel const*> kernels;
  std::optional<bool> asserts;  // once somebody wanted to know

  bool find_out_whether_it_asserts() {
    if (!asserts) {
      asserts =
          std::any_of(kernels.begin(), kernels.end(), [](auto const* kernel) { return kernel_asserts(kernel->name); });
    }
    return *asserts;
  }
};

struct Registry {
  std::shared_mutex mutex;
  std::unordered_map<void const*, Kernel> kernels;
  std::deque<Module> modules;
  std::size_t modules_asked = 0;  // whether their kernels are known
  std::atomic<bool> asserting_ones_are_known = false;
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

void* register_module() {
  std::unique_lock<std::shared_mutex> const lock(registry().mutex);
  return &registry().modules.emplace_back();
}

void register_kernel(void* module, void const* host_function, char const* name) {
  std::unique_lock<std::shared_mutex> const lock(registry().mutex);
  auto& kernel = registry().kernels[host_function];
  kernel.name = name == nullptr ? "" : name;
  kernel.module = static_cast<Module*>(module);
  if (kernel.module != nullptr) { kernel.module->kernels.push_back(&kernel); }
}

std::optional<KernelCode> first_launch(void const* host_function, int device) {
  auto const bit = std::uint32_t{1} << static_cast<unsigned>(device);
  {
    std::shared_lock<std::shared_mutex> const lock(registry().mutex);
    auto const found = registry().kernels.find(host_function);
    // A look before the write: every launch passes here, and all but the first have nothing to write.
    if (found == registry().kernels.end() || (found->second.launched_on.load() & bit) != 0 ||
        (found->second.launched_on.fetch_or(bit) & bit) != 0) {
      return std::nullopt;
    }
  }
  std::unique_lock<std::shared_mutex> const lock(registry().mutex);
  auto const& kernel = registry().kernels.at(host_function);
  KernelCode code;
  code.asserts = kernel_asserts(kernel.name);
  code.module_asserts = kernel.module != nullptr && kernel.module->find_out_whether_it_asserts();
  return code;
}

bool asserting_kernels_are_known() {
  auto& all = registry();
  if (all.asserting_ones_are_known) { return true; }
  std::unique_lock<std::shared_mutex> const lock(all.mutex);
  while (!all.asserting_ones_are_known && all.modules_asked < all.modules.size()) {
    all.asserting_ones_are_known = all.modules[all.modules_asked++].find_out_whether_it_asserts();
  }
  return all.asserting_ones_are_known;
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

// NOLINTBEGIN(bugprone-reserved-identifier,readability-identifier-naming): names that nvcc's code calls
MAXBATCH_DRY_ENTRY void** __cudaRegisterFatBinary(void*) { return static_cast<void**>(register_module()); }
MAXBATCH_DRY_ENTRY void __cudaRegisterFatBinaryEnd(void**) {}
MAXBATCH_DRY_ENTRY void __cudaUnregisterFatBinary(void**) {}
MAXBATCH_DRY_ENTRY char __cudaInitModule(void**) { return 1; }
MAXBATCH_DRY_ENTRY void __cudaRegisterFunction(void** module, char const* host_function, char*, char const* name, int,
                                               uint3*, uint3*, dim3*, dim3*, int*) {
  register_kernel(module, host_function, name);
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
// NOLINTEND(bugprone-reserved-identifier,readability-identifier-naming)
