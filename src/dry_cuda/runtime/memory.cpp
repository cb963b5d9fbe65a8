#include "capture.hpp"
#include "current_device.hpp"
#include "dry_cuda/activation/environment.hpp"
#include "dry_cuda/driver/virtual_mappings.hpp"
#include "dry_cuda/entry_point.hpp"
#include "dry_cuda/memory/card.hpp"
#include "dry_cuda/memory/host_blocks.hpp"
#include "dry_cuda/policies/policy_hooks.hpp"
#include "dry_cuda/report/allocator_watch.hpp"
#include "dry_cuda/report/call_notes.hpp"
#include "thread_error.hpp"

#include <cuda_runtime_api.h>

#include <cstdint>
#include <limits>

namespace maxbatch::dry {
namespace {

std::int64_t as_bytes(std::size_t size) {
  constexpr auto kMost = static_cast<std::size_t>(std::numeric_limits<std::int64_t>::max());
  return static_cast<std::int64_t>(size < kMost ? size : kMost);
}

void* as_pointer(Address address) { return reinterpret_cast<void*>(address); }  // NOLINT(performance-no-int-to-ptr)

/// With size 0 CUDA gives a null pointer and says success.
cudaError_t allocate_host(HostBlockKind kind, void** pointer, std::size_t size) {
  if (pointer == nullptr) { return cudaErrorInvalidValue; }
  *pointer = nullptr;
  if (auto const status = ready(); status != cudaSuccess) { return status; }
  if (auto const status = check_unsafe_call(); status != cudaSuccess) { return status; }
  if (size == 0) { return kind == HostBlockKind::managed ? cudaErrorInvalidValue : cudaSuccess; }
  *pointer = allocate_host_block(kind, size, current_device());
  if (*pointer != nullptr && kind == HostBlockKind::pinned) { Card::current().note_pinned_memory(as_bytes(size)); }
  return *pointer == nullptr ? cudaErrorMemoryAllocation : cudaSuccess;
}

cudaError_t allocate_device(void** pointer, std::size_t size) {
  if (pointer == nullptr) { return cudaErrorInvalidValue; }
  *pointer = nullptr;
  if (auto const status = ready(); status != cudaSuccess) { return status; }
  if (size == 0) { return cudaSuccess; }
  load_data_policies_once();
  start_allocator_watch();
  auto const address = Card::current().allocate(as_bytes(size));
  if (!address) { return cudaErrorMemoryAllocation; }
  *pointer = as_pointer(*address);
  return cudaSuccess;
}

cudaError_t release_device(void* pointer) {
  if (auto const status = ready(); status != cudaSuccess) { return status; }
  if (pointer == nullptr) {
    Card::current();  // the customary way to make a context
    return cudaSuccess;
  }
  if (release_host_block(HostBlockKind::managed, pointer)) { return cudaSuccess; }
  auto const device = card_of_address(pointer);
  if (device < 0 || device >= environment().devices) { return cudaErrorInvalidValue; }
  return Card::at(device).release(reinterpret_cast<Address>(pointer)) ? cudaSuccess : cudaErrorInvalidValue;
}

}  // namespace
}  // namespace maxbatch::dry

using namespace maxbatch::dry;  // NOLINT(google-build-using-namespace): entry points live outside

MAXBATCH_DRY_ENTRY cudaError_t cudaMalloc(void** pointer, std::size_t size) {
  if (auto const status = check_unsafe_call(); status != cudaSuccess) { return finish(status); }
  return finish(allocate_device(pointer, size));
}
MAXBATCH_DRY_ENTRY cudaError_t cudaFree(void* pointer) {
  if (auto const status = check_unsafe_call(); status != cudaSuccess) { return finish(status); }
  return finish(release_device(pointer));
}

// The stream-ordered allocator: without work in flight, order is no matter.
MAXBATCH_DRY_ENTRY cudaError_t cudaMallocAsync(void** pointer, std::size_t size, cudaStream_t) {
  return finish(allocate_device(pointer, size));
}
MAXBATCH_DRY_ENTRY cudaError_t cudaMallocFromPoolAsync(void** pointer, std::size_t size, cudaMemPool_t, cudaStream_t) {
  return finish(allocate_device(pointer, size));
}
MAXBATCH_DRY_ENTRY cudaError_t cudaFreeAsync(void* pointer, cudaStream_t) { return finish(release_device(pointer)); }

MAXBATCH_DRY_ENTRY cudaError_t cudaMemGetInfo(std::size_t* free, std::size_t* total) {
  if (free == nullptr || total == nullptr) { return finish(cudaErrorInvalidValue); }
  if (auto const status = ready(); status != cudaSuccess) { return finish(status); }
  auto const info = Card::current().memory_info();
  *free = static_cast<std::size_t>(info.free_bytes);
  *total = static_cast<std::size_t>(info.total_bytes);
  return cudaSuccess;
}

MAXBATCH_DRY_ENTRY cudaError_t cudaHostAlloc(void** pointer, std::size_t size, unsigned) {
  return finish(allocate_host(HostBlockKind::pinned, pointer, size));
}
MAXBATCH_DRY_ENTRY cudaError_t cudaMallocHost(void** pointer, std::size_t size) {
  return finish(allocate_host(HostBlockKind::pinned, pointer, size));
}
MAXBATCH_DRY_ENTRY cudaError_t cudaFreeHost(void* pointer) {
  if (pointer == nullptr) { return cudaSuccess; }
  if (auto const status = check_unsafe_call(); status != cudaSuccess) { return finish(status); }
  return finish(release_host_block(HostBlockKind::pinned, pointer) ? cudaSuccess : cudaErrorInvalidValue);
}
/// Lives in host memory, where the host may use it: with no kernels nothing ever moves to the card.
MAXBATCH_DRY_ENTRY cudaError_t cudaMallocManaged(void** pointer, std::size_t size, unsigned) {
  return finish(allocate_host(HostBlockKind::managed, pointer, size));
}
MAXBATCH_DRY_ENTRY cudaError_t cudaHostRegister(void* pointer, std::size_t size, unsigned) {
  if (pointer == nullptr || size == 0) { return finish(cudaErrorInvalidValue); }
  if (auto const status = ready(); status != cudaSuccess) { return finish(status); }
  if (auto const status = check_unsafe_call(); status != cudaSuccess) { return finish(status); }
  return finish(register_host_block(pointer, size, current_device()) ? cudaSuccess
                                                                     : cudaErrorHostMemoryAlreadyRegistered);
}
MAXBATCH_DRY_ENTRY cudaError_t cudaHostUnregister(void* pointer) {
  return finish(unregister_host_block(pointer) ? cudaSuccess : cudaErrorHostMemoryNotRegistered);
}
MAXBATCH_DRY_ENTRY cudaError_t cudaHostGetDevicePointer(void** device, void* host, unsigned) {
  if (device == nullptr || !host_block_around(host)) { return finish(cudaErrorInvalidValue); }
  *device = host;
  return cudaSuccess;
}
MAXBATCH_DRY_ENTRY cudaError_t cudaHostGetFlags(unsigned* flags, void* host) {
  if (flags == nullptr || !host_block_around(host)) { return finish(cudaErrorInvalidValue); }
  *flags = cudaHostAllocMapped;
  return cudaSuccess;
}

MAXBATCH_DRY_ENTRY cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes, void const* pointer) {
  if (attributes == nullptr) { return finish(cudaErrorInvalidValue); }
  if (auto const status = ready(); status != cudaSuccess) { return finish(status); }
  *attributes = cudaPointerAttributes{};
  auto* const same = const_cast<void*>(pointer);
  attributes->type = cudaMemoryTypeUnregistered;
  attributes->device = cudaInvalidDeviceId;
  attributes->hostPointer = same;
  if (is_device_address(pointer)) {
    auto const address = reinterpret_cast<Address>(pointer);
    auto const device = card_of_address(pointer);
    auto const is_there = device < 0 ? is_mapped(address) : Card::at(device).allocation_around(address).has_value();
    if (!is_there) { return cudaSuccess; }
    attributes->type = cudaMemoryTypeDevice;
    attributes->device = device < 0 ? device_of_mapping(address) : device;
    attributes->devicePointer = same;
    attributes->hostPointer = nullptr;
  } else if (auto const block = host_block_around(pointer)) {
    attributes->type = block->kind == HostBlockKind::managed ? cudaMemoryTypeManaged : cudaMemoryTypeHost;
    attributes->device = block->device;
    attributes->devicePointer = same;
  }
  return cudaSuccess;
}
