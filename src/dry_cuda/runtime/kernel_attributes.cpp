#include "dry_cuda/card_profile.hpp"
#include "dry_cuda/entry_point.hpp"
#include "dry_cuda/memory/card.hpp"
#include "kernel_registry.hpp"
#include "occupancy.hpp"
#include "thread_error.hpp"

#include <cuda_runtime_api.h>

#include <map>
#include <mutex>

namespace maxbatch::dry {
cudaError_t symbol_address(void const* symbol, void** address) {
  // From the upper end of the range that cuMemAddressReserve fills from the lower: addresses that nothing else is given.
  constexpr Address kApart = 65536;
  static auto* const mutex = new std::mutex;
  static auto* const addresses = new std::map<void const*, Address>;
  std::lock_guard<std::mutex> const lock(*mutex);
  reserve_device_addresses();
  auto const found = addresses->emplace(symbol, virtual_addresses().end - kApart * (addresses->size() + 1)).first;
  *address = reinterpret_cast<void*>(found->second);  // NOLINT(performance-no-int-to-ptr)
  return cudaSuccess;
}

}  // namespace maxbatch::dry

using namespace maxbatch::dry;  // NOLINT(google-build-using-namespace): entry points live outside

MAXBATCH_DRY_ENTRY cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* attributes, void const* function) {
  if (attributes == nullptr) { return finish(cudaErrorInvalidValue); }
  if (auto const status = ready(); status != cudaSuccess) { return finish(status); }
  if (auto const status = check_kernel(function); status != cudaSuccess) { return finish(status); }
  *attributes = cudaFuncAttributes{};
  auto const kernel = resources_of(function);
  attributes->maxThreadsPerBlock = most_block_threads(kernel);
  attributes->numRegs = kernel.registers;
  attributes->sharedSizeBytes = static_cast<std::size_t>(kernel.shared_bytes);
  attributes->ptxVersion = loaded_architecture(card_profile());
  attributes->binaryVersion = attributes->ptxVersion;
  attributes->maxDynamicSharedSizeBytes = most_dynamic_shared_bytes(function);
  attributes->preferredShmemCarveout = -1;
  return cudaSuccess;
}

MAXBATCH_DRY_ENTRY cudaError_t cudaFuncSetAttribute(void const* function, cudaFuncAttribute attribute, int value) {
  if (auto const status = ready(); status != cudaSuccess) { return finish(status); }
  if (auto const status = check_kernel(function); status != cudaSuccess) { return finish(status); }
  if (attribute == cudaFuncAttributeMaxDynamicSharedMemorySize) {
    if (value < 0 || value > card_profile().shared_bytes_per_block_optin) { return finish(cudaErrorInvalidValue); }
    set_most_dynamic_shared_bytes(function, value);
  }
  return cudaSuccess;
}
MAXBATCH_DRY_ENTRY cudaError_t cudaFuncSetCacheConfig(void const* function, cudaFuncCache) {
  return finish(check_kernel(function));
}

MAXBATCH_DRY_ENTRY cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* blocks, void const* function,
                                                                                      int block_threads,
                                                                                      std::size_t dynamic_shared_bytes,
                                                                                      unsigned) {
  if (blocks == nullptr) { return finish(cudaErrorInvalidValue); }
  if (auto const status = check_kernel(function); status != cudaSuccess) { return finish(status); }
  *blocks = resident_blocks(resources_of(function), block_threads, dynamic_shared_bytes);
  return finish(ready());
}
MAXBATCH_DRY_ENTRY cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, void const* function,
                                                                             int block_threads,
                                                                             std::size_t dynamic_shared_bytes) {
  return cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(blocks, function, block_threads, dynamic_shared_bytes,
                                                                0);
}
MAXBATCH_DRY_ENTRY cudaError_t cudaOccupancyMaxActiveClusters(int* clusters, void const*, cudaLaunchConfig_t const*) {
  if (clusters == nullptr) { return finish(cudaErrorInvalidValue); }
  *clusters = card_profile().multiprocessors / 2;
  return finish(ready());
}
MAXBATCH_DRY_ENTRY cudaError_t cudaOccupancyAvailableDynamicSMemPerBlock(std::size_t* bytes, void const*, int, int) {
  if (bytes == nullptr) { return finish(cudaErrorInvalidValue); }
  *bytes = static_cast<std::size_t>(card_profile().shared_bytes_per_block_optin);
  return finish(ready());
}

/// Where a variable of a module lies on the card: an address that can be copied to and from, and no more.
MAXBATCH_DRY_ENTRY cudaError_t cudaGetSymbolAddress(void** address, void const* symbol) {
  if (address == nullptr || symbol == nullptr) { return finish(cudaErrorInvalidSymbol); }
  if (auto const status = ready(); status != cudaSuccess) { return finish(status); }
  return finish(symbol_address(symbol, address));
}
