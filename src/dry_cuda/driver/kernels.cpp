// Modules, libraries and kernels of the driver: whatever was compiled (by NVRTC, Triton, cuDNN's compiler) loads, and its
// launches are checked and counted.
#include "dry_cuda/card_profile.hpp"
#include "dry_cuda/entry_point.hpp"
#include "dry_cuda/report/call_notes.hpp"
#include "dry_cuda/runtime/launch.hpp"
#include "dry_cuda/runtime/occupancy.hpp"

#include <cuda.h>

#include <atomic>

namespace maxbatch::dry {
namespace {

/// A handle that nobody looks into, and no two the same.
template <typename Handle>
Handle make_handle() {
  static std::atomic<std::uintptr_t> next{0x10000};
  return reinterpret_cast<Handle>(next += 16);  // NOLINT(performance-no-int-to-ptr)
}

CUresult load_module(CUmodule* module) {
  if (module == nullptr) { return CUDA_ERROR_INVALID_VALUE; }
  *module = make_handle<CUmodule>();
  return CUDA_SUCCESS;
}

/// Kernels of modules have not told how much dynamic shared memory they may have: all that the card gives.
CUresult launch_function(unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x, unsigned block_y,
                         unsigned block_z, unsigned shared_bytes, CUstream stream) {
  auto const most = static_cast<std::size_t>(card_profile().shared_bytes_per_block_optin);
  auto const status = launch(dim3(grid_x, grid_y, grid_z), dim3(block_x, block_y, block_z), shared_bytes, most, stream);
  return status == cudaErrorInvalidConfiguration ? CUDA_ERROR_INVALID_VALUE : static_cast<CUresult>(status);
}

CUresult function_attribute(int* value, CUfunction_attribute attribute) {
  if (value == nullptr) { return CUDA_ERROR_INVALID_VALUE; }
  switch (attribute) {
    case CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK: *value = 1024; break;
    case CU_FUNC_ATTRIBUTE_NUM_REGS: *value = KernelResources{}.registers; break;
    default: *value = 0; break;
  }
  return CUDA_SUCCESS;
}

}  // namespace
}  // namespace maxbatch::dry

using namespace maxbatch::dry;  // NOLINT(google-build-using-namespace): entry points live outside

MAXBATCH_DRY_ENTRY CUresult cuModuleLoad(CUmodule* module, char const*) { return load_module(module); }
MAXBATCH_DRY_ENTRY CUresult cuModuleLoadData(CUmodule* module, void const*) { return load_module(module); }
MAXBATCH_DRY_ENTRY CUresult cuModuleLoadDataEx(CUmodule* module, void const*, unsigned, CUjit_option*, void**) {
  return load_module(module);
}
MAXBATCH_DRY_ENTRY CUresult cuModuleUnload(CUmodule) { return CUDA_SUCCESS; }
MAXBATCH_DRY_ENTRY CUresult cuModuleGetFunction(CUfunction* function, CUmodule, char const*) {
  *function = make_handle<CUfunction>();
  return CUDA_SUCCESS;
}
MAXBATCH_DRY_ENTRY CUresult cuLibraryLoadData(CUlibrary* library, void const*, CUjit_option*, void**, unsigned,
                                              CUlibraryOption*, void**, unsigned) {
  *library = make_handle<CUlibrary>();
  return CUDA_SUCCESS;
}
MAXBATCH_DRY_ENTRY CUresult cuLibraryUnload(CUlibrary) { return CUDA_SUCCESS; }
MAXBATCH_DRY_ENTRY CUresult cuLibraryGetKernel(CUkernel* kernel, CUlibrary, char const*) {
  *kernel = make_handle<CUkernel>();
  return CUDA_SUCCESS;
}
MAXBATCH_DRY_ENTRY CUresult cuLibraryGetModule(CUmodule* module, CUlibrary) { return load_module(module); }
MAXBATCH_DRY_ENTRY CUresult cuKernelGetFunction(CUfunction* function, CUkernel kernel) {
  *function = reinterpret_cast<CUfunction>(kernel);
  return CUDA_SUCCESS;
}

MAXBATCH_DRY_ENTRY CUresult cuFuncGetAttribute(int* value, CUfunction_attribute attribute, CUfunction) {
  return function_attribute(value, attribute);
}
MAXBATCH_DRY_ENTRY CUresult cuKernelGetAttribute(int* value, CUfunction_attribute attribute, CUkernel, CUdevice) {
  return function_attribute(value, attribute);
}
MAXBATCH_DRY_ENTRY CUresult cuFuncSetAttribute(CUfunction, CUfunction_attribute, int) { return CUDA_SUCCESS; }
MAXBATCH_DRY_ENTRY CUresult cuKernelSetAttribute(CUfunction_attribute, int, CUkernel, CUdevice) { return CUDA_SUCCESS; }
MAXBATCH_DRY_ENTRY CUresult cuFuncSetCacheConfig(CUfunction, CUfunc_cache) { return CUDA_SUCCESS; }

MAXBATCH_DRY_ENTRY CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, CUfunction, int block_threads,
                                                                        std::size_t shared_bytes) {
  *blocks = resident_blocks(KernelResources{}, block_threads, shared_bytes);
  return CUDA_SUCCESS;
}
MAXBATCH_DRY_ENTRY CUresult cuOccupancyMaxPotentialClusterSize(int* size, CUfunction, CUlaunchConfig const*) {
  *size = 8;  // what every card with clusters can do
  return CUDA_SUCCESS;
}

MAXBATCH_DRY_ENTRY CUresult cuLaunchKernel(CUfunction, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                                           unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared_bytes,
                                           CUstream stream, void**, void**) {
  return launch_function(grid_x, grid_y, grid_z, block_x, block_y, block_z, shared_bytes, stream);
}
MAXBATCH_DRY_ENTRY CUresult cuLaunchCooperativeKernel(CUfunction, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                                                      unsigned block_x, unsigned block_y, unsigned block_z,
                                                      unsigned shared_bytes, CUstream stream, void**) {
  return launch_function(grid_x, grid_y, grid_z, block_x, block_y, block_z, shared_bytes, stream);
}
MAXBATCH_DRY_ENTRY CUresult cuLaunchKernelEx(CUlaunchConfig const* config, CUfunction, void**, void**) {
  if (config == nullptr) { return CUDA_ERROR_INVALID_VALUE; }
  return launch_function(config->gridDimX, config->gridDimY, config->gridDimZ, config->blockDimX, config->blockDimY,
                         config->blockDimZ, config->sharedMemBytes, config->hStream);
}

/// Describes a tensor to a kernel's copy engine: the kernel never runs.
MAXBATCH_DRY_ENTRY CUresult cuTensorMapEncodeTiled(CUtensorMap* map, CUtensorMapDataType, cuuint32_t, void*,
                                                   cuuint64_t const*, cuuint64_t const*, cuuint32_t const*,
                                                   cuuint32_t const*, CUtensorMapInterleave, CUtensorMapSwizzle,
                                                   CUtensorMapL2promotion, CUtensorMapFloatOOBfill) {
  if (map == nullptr) { return CUDA_ERROR_INVALID_VALUE; }
  *map = CUtensorMap{};
  return CUDA_SUCCESS;
}

// Linking would need the driver's own compiler.
MAXBATCH_DRY_ENTRY CUresult cuLinkCreate(unsigned, CUjit_option*, void**, CUlinkState*) {
  return refuse("cuLinkCreate", CUDA_ERROR_NOT_SUPPORTED);
}
MAXBATCH_DRY_ENTRY CUresult cuLinkAddData(CUlinkState, CUjitInputType, void*, std::size_t, char const*, unsigned,
                                          CUjit_option*, void**) {
  return refuse("cuLinkAddData", CUDA_ERROR_NOT_SUPPORTED);
}
MAXBATCH_DRY_ENTRY CUresult cuLinkComplete(CUlinkState, void**, std::size_t*) {
  return refuse("cuLinkComplete", CUDA_ERROR_NOT_SUPPORTED);
}
MAXBATCH_DRY_ENTRY CUresult cuLinkDestroy(CUlinkState) { return CUDA_SUCCESS; }
