#include "device_attributes.hpp"
#include "dry_cuda/activation/environment.hpp"
#include "dry_cuda/card_profile.hpp"
#include "dry_cuda/entry_point.hpp"
#include "dry_cuda/memory/card.hpp"
#include "thread_error.hpp"

#include <cuda.h>
#include <cuda_runtime_api.h>

#include <array>
#include <cstdio>
#include <cstring>

namespace maxbatch::dry {
namespace {

/// Attribute 1, 2, … as an H200 answers them (driver 580, CUDA 13.0: tests/data/dry_cuda/h200_answers.txt). What differs
/// between cards is put over them below; the rest is limits of textures and the like, the same for all that we know of.
constexpr std::array<int, 148> kMeasuredAttributes = {
    0,        1024,      1024,     1024,  64,    2147483647, 65535, 65535,     49152,     65536,     32,     2147483647,
    65536,    1980000,   512,      1,     132,   0,          0,     1,         0,         131072,    131072, 65536,
    16384,    16384,     16384,    32768, 32768, 2048,       512,   1,         1,         0,         6,      0,
    3201000,  6016,      62914560, 2048,  3,     1,          32768, 2048,      1,         32768,     32768,  8192,
    8192,     32768,     0,        32,    32768, 32768,      2046,  32768,     131072,    65536,     16384,  16384,
    16384,    32768,     2048,     32768, 32768, 2048,       32768, 32768,     2046,      268435456, 131072, 65000,
    2097120,  32768,     32768,    9,     0,     32768,      1,     1,         1,         233472,    65536,  1,
    0,        0,         0,        2,     0,     1,          1,     1,         0,         0,         0,      1,
    1,        232448,    0,        1,     0,     0,          1,     1,         0,         0,         32,     1,
    39321600, 134217728, 1,        1024,  1,     1,          1,     1,         1,         1,         100,    9,
    1,        1,         1,        1,     1,     1,          4,     1,         1,         1,         0,      -1,
    0,        0,         0,        0,     0,     0,          0,     590680286, 415174878, 1,         1,      0,
    1,        1,         0,        0};

int as_int(std::int64_t value) { return static_cast<int>(value); }

std::optional<int> attribute_of_profile(CardProfile const& card, int attribute, int device) {
  switch (attribute) {
    case cudaDevAttrMultiProcessorCount: return card.multiprocessors;
    case cudaDevAttrComputeCapabilityMajor: return card.major;
    case cudaDevAttrComputeCapabilityMinor: return card.minor;
    case cudaDevAttrMaxThreadsPerMultiProcessor: return card.threads_per_multiprocessor;
    case cudaDevAttrMaxBlocksPerMultiprocessor: return card.blocks_per_multiprocessor;
    case cudaDevAttrMaxRegistersPerMultiprocessor: return card.registers_per_multiprocessor;
    case cudaDevAttrMaxSharedMemoryPerMultiprocessor: return as_int(card.shared_bytes_per_multiprocessor);
    case cudaDevAttrMaxSharedMemoryPerBlockOptin: return as_int(card.shared_bytes_per_block_optin);
    case cudaDevAttrReservedSharedMemoryPerBlock: return card.major >= 8 ? 1024 : 0;
    case cudaDevAttrL2CacheSize: return as_int(card.l2_bytes);
    case cudaDevAttrMaxPersistingL2CacheSize: return card.major >= 8 ? as_int(card.l2_bytes / 8 * 5) : 0;
    case cudaDevAttrMaxAccessPolicyWindowSize: return card.major >= 8 ? 134217728 : 0;
    case cudaDevAttrGlobalMemoryBusWidth: return card.memory_bus_bits;
    case cudaDevAttrClockRate: return card.clock_khz;
    case cudaDevAttrMemoryClockRate: return card.memory_clock_khz;
    case cudaDevAttrEccEnabled: return card.ecc ? 1 : 0;
    case cudaDevAttrClusterLaunch: return card.major >= 9 && card.major != 12 ? 1 : 0;
    case CU_DEVICE_ATTRIBUTE_TENSOR_MAP_ACCESS_SUPPORTED: return card.major >= 9 ? 1 : 0;
    case cudaDevAttrSingleToDoublePrecisionPerfRatio: return card.major == 9 || card.major == 10 ? 2 : 64;
    case cudaDevAttrPciBusId: return 0;
    case cudaDevAttrPciDeviceId: return device + 6;
    default: return std::nullopt;
  }
}

std::size_t as_size(std::int64_t value) { return static_cast<std::size_t>(value); }

}  // namespace

std::optional<int> device_attribute(int attribute, int device) {
  if (attribute < 1 || attribute >= static_cast<int>(kMeasuredAttributes.size())) { return std::nullopt; }
  auto const of_profile = attribute_of_profile(card_profile(), attribute, device);
  return of_profile ? *of_profile : kMeasuredAttributes.at(static_cast<std::size_t>(attribute));
}

}  // namespace maxbatch::dry

using namespace maxbatch::dry;  // NOLINT(google-build-using-namespace): entry points live outside

MAXBATCH_DRY_ENTRY cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device) {
  if (value == nullptr) { return finish(cudaErrorInvalidValue); }
  if (auto const status = ready(); status != cudaSuccess) { return finish(status); }
  if (device < 0 || device >= environment().devices) { return finish(cudaErrorInvalidDevice); }
  auto const answer = device_attribute(static_cast<int>(attribute), device);
  if (!answer) { return finish(cudaErrorInvalidValue); }
  *value = *answer;
  return cudaSuccess;
}

MAXBATCH_DRY_ENTRY cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
  if (properties == nullptr) { return finish(cudaErrorInvalidValue); }
  if (auto const status = ready(); status != cudaSuccess) { return finish(status); }
  if (device < 0 || device >= environment().devices) { return finish(cudaErrorInvalidDevice); }
  auto const& card = card_profile();
  auto const ask = [&](cudaDeviceAttr attribute) {
    return device_attribute(static_cast<int>(attribute), device).value();
  };
  auto& out = *properties;
  out = cudaDeviceProp{};
  std::snprintf(out.name, sizeof(out.name), "%s", card.name.c_str());
  // No real card has this identity: the first bytes spell what it is.
  std::memcpy(out.uuid.bytes, "maxbatch dry    ", sizeof(out.uuid.bytes));
  out.uuid.bytes[15] = static_cast<char>('0' + device);
  out.totalGlobalMem = as_size(card.total_bytes);
  out.sharedMemPerBlock = as_size(ask(cudaDevAttrMaxSharedMemoryPerBlock));
  out.regsPerBlock = ask(cudaDevAttrMaxRegistersPerBlock);
  out.warpSize = ask(cudaDevAttrWarpSize);
  out.memPitch = as_size(ask(cudaDevAttrMaxPitch));
  out.maxThreadsPerBlock = ask(cudaDevAttrMaxThreadsPerBlock);
  out.maxThreadsDim[0] = ask(cudaDevAttrMaxBlockDimX);
  out.maxThreadsDim[1] = ask(cudaDevAttrMaxBlockDimY);
  out.maxThreadsDim[2] = ask(cudaDevAttrMaxBlockDimZ);
  out.maxGridSize[0] = ask(cudaDevAttrMaxGridDimX);
  out.maxGridSize[1] = ask(cudaDevAttrMaxGridDimY);
  out.maxGridSize[2] = ask(cudaDevAttrMaxGridDimZ);
  out.totalConstMem = as_size(ask(cudaDevAttrTotalConstantMemory));
  out.major = card.major;
  out.minor = card.minor;
  out.textureAlignment = as_size(ask(cudaDevAttrTextureAlignment));
  out.texturePitchAlignment = as_size(ask(cudaDevAttrTexturePitchAlignment));
  out.multiProcessorCount = card.multiprocessors;
  out.canMapHostMemory = ask(cudaDevAttrCanMapHostMemory);
  out.surfaceAlignment = as_size(ask(cudaDevAttrSurfaceAlignment));
  out.concurrentKernels = ask(cudaDevAttrConcurrentKernels);
  out.ECCEnabled = card.ecc ? 1 : 0;
  out.pciBusID = ask(cudaDevAttrPciBusId);
  out.pciDeviceID = ask(cudaDevAttrPciDeviceId);
  out.asyncEngineCount = ask(cudaDevAttrAsyncEngineCount);
  out.unifiedAddressing = ask(cudaDevAttrUnifiedAddressing);
  out.memoryBusWidth = card.memory_bus_bits;
  out.l2CacheSize = ask(cudaDevAttrL2CacheSize);
  out.persistingL2CacheMaxSize = ask(cudaDevAttrMaxPersistingL2CacheSize);
  out.maxThreadsPerMultiProcessor = card.threads_per_multiprocessor;
  out.streamPrioritiesSupported = ask(cudaDevAttrStreamPrioritiesSupported);
  out.globalL1CacheSupported = ask(cudaDevAttrGlobalL1CacheSupported);
  out.localL1CacheSupported = ask(cudaDevAttrLocalL1CacheSupported);
  out.sharedMemPerMultiprocessor = as_size(card.shared_bytes_per_multiprocessor);
  out.regsPerMultiprocessor = card.registers_per_multiprocessor;
  out.managedMemory = ask(cudaDevAttrManagedMemory);
  out.concurrentManagedAccess = ask(cudaDevAttrConcurrentManagedAccess);
  out.computePreemptionSupported = ask(cudaDevAttrComputePreemptionSupported);
  out.canUseHostPointerForRegisteredMem = ask(cudaDevAttrCanUseHostPointerForRegisteredMem);
  out.cooperativeLaunch = ask(cudaDevAttrCooperativeLaunch);
  out.sharedMemPerBlockOptin = as_size(card.shared_bytes_per_block_optin);
  out.maxBlocksPerMultiProcessor = card.blocks_per_multiprocessor;
  out.accessPolicyMaxWindowSize = ask(cudaDevAttrMaxAccessPolicyWindowSize);
  out.reservedSharedMemPerBlock = as_size(ask(cudaDevAttrReservedSharedMemoryPerBlock));
  out.hostRegisterSupported = ask(cudaDevAttrHostRegisterSupported);
  out.sparseCudaArraySupported = ask(cudaDevAttrSparseCudaArraySupported);
  out.hostRegisterReadOnlySupported = ask(cudaDevAttrHostRegisterReadOnlySupported);
  out.timelineSemaphoreInteropSupported = ask(cudaDevAttrTimelineSemaphoreInteropSupported);
  out.memoryPoolsSupported = ask(cudaDevAttrMemoryPoolsSupported);
  out.gpuDirectRDMASupported = ask(cudaDevAttrGPUDirectRDMASupported);
  out.gpuDirectRDMAFlushWritesOptions = static_cast<unsigned>(ask(cudaDevAttrGPUDirectRDMAFlushWritesOptions));
  out.gpuDirectRDMAWritesOrdering = ask(cudaDevAttrGPUDirectRDMAWritesOrdering);
  out.memoryPoolSupportedHandleTypes = static_cast<unsigned>(ask(cudaDevAttrMemoryPoolSupportedHandleTypes));
  out.deferredMappingCudaArraySupported = ask(cudaDevAttrDeferredMappingCudaArraySupported);
  out.ipcEventSupported = ask(cudaDevAttrIpcEventSupport);
  out.clusterLaunch = ask(cudaDevAttrClusterLaunch);
  out.unifiedFunctionPointers = 1;
  return cudaSuccess;
}

MAXBATCH_DRY_ENTRY cudaError_t cudaDeviceGetLimit(std::size_t* value, cudaLimit limit) {
  if (value == nullptr) { return finish(cudaErrorInvalidValue); }
  if (auto const status = ready(); status != cudaSuccess) { return finish(status); }
  auto const& card = card_profile();
  // As an H200 answers; those in proportion to multiprocessors are scaled.
  switch (static_cast<int>(limit)) {
    case cudaLimitStackSize: *value = 1024; break;
    case cudaLimitPrintfFifoSize: *value = 8650752; break;
    case cudaLimitMallocHeapSize: *value = 8388608; break;
    case cudaLimitDevRuntimePendingLaunchCount: *value = 2048; break;
    case cudaLimitMaxL2FetchGranularity: *value = 64; break;
    case cudaLimitPersistingL2CacheSize: *value = card.major >= 8 ? as_size(card.l2_bytes / 16 * 3) : 0; break;
    case 7: *value = as_size(card.shared_bytes_per_block_optin); break;
    default: return finish(cudaErrorUnsupportedLimit);
  }
  return cudaSuccess;
}
MAXBATCH_DRY_ENTRY cudaError_t cudaDeviceSetLimit(cudaLimit, std::size_t) { return finish(ready()); }
