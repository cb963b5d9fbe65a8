#include "occupancy.hpp"

#include "dry_cuda/card_profile.hpp"

#include <cuda_occupancy.h>

#include <algorithm>

namespace maxbatch::dry {
namespace {

constexpr int kWarp = 32;
constexpr int kMostThreads = 1024;

cudaOccDeviceProp device_properties(CardProfile const& card) {
  cudaOccDeviceProp properties;
  properties.computeMajor = card.major;
  properties.computeMinor = card.minor;
  properties.maxThreadsPerBlock = kMostThreads;
  properties.maxThreadsPerMultiprocessor = card.threads_per_multiprocessor;
  properties.regsPerBlock = 65536;
  properties.regsPerMultiprocessor = card.registers_per_multiprocessor;
  properties.warpSize = kWarp;
  properties.sharedMemPerBlock = 49152;
  properties.sharedMemPerMultiprocessor = static_cast<std::size_t>(card.shared_bytes_per_multiprocessor);
  properties.numSms = card.multiprocessors;
  properties.sharedMemPerBlockOptin = static_cast<std::size_t>(card.shared_bytes_per_block_optin);
  properties.reservedSharedMemPerBlock = card.major >= 8 ? 1024 : 0;
  return properties;
}

}  // namespace

int resident_blocks(KernelResources const& kernel, int block_threads, std::size_t dynamic_shared_bytes) {
  auto const& card = card_profile();
  if (block_threads < 1 || block_threads > kMostThreads) { return 0; }
  auto const properties = device_properties(card);
  cudaOccFuncAttributes attributes;
  attributes.maxThreadsPerBlock = kMostThreads;
  attributes.numRegs = kernel.registers;
  attributes.sharedSizeBytes = static_cast<std::size_t>(kernel.shared_bytes);
  attributes.shmemLimitConfig = FUNC_SHMEM_LIMIT_OPTIN;
  attributes.maxDynamicSharedSizeBytes = static_cast<std::size_t>(card.shared_bytes_per_block_optin);
  cudaOccDeviceState const state;
  cudaOccResult result;
  auto const status = cudaOccMaxActiveBlocksPerMultiprocessor(&result, &properties, &attributes, &state, block_threads,
                                                              dynamic_shared_bytes);
  if (status == CUDA_OCC_SUCCESS) { return result.activeBlocksPerMultiprocessor; }
  // A card that CUDA 13's calculation does not know any more.
  auto const warps = (block_threads + kWarp - 1) / kWarp;
  return std::min(card.threads_per_multiprocessor / kWarp / warps, card.blocks_per_multiprocessor);
}

int most_block_threads(KernelResources const& kernel) {
  // Registers are handed out by the warp, in units of 256.
  auto const of_warp = (std::max(1, kernel.registers) * kWarp + 255) / 256 * 256;
  return std::min(kMostThreads, 65536 / of_warp * kWarp);
}

}  // namespace maxbatch::dry
