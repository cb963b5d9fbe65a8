// Virtual memory management, as far as the caching allocator's expandable segments use it: memory without an address,
// addresses without memory, and which is mapped where.
#include "dry_cuda/activation/environment.hpp"
#include "dry_cuda/entry_point.hpp"
#include "dry_cuda/memory/card.hpp"
#include "dry_cuda/memory/known_bytes.hpp"
#include "dry_cuda/policies/policy_hooks.hpp"
#include "dry_cuda/report/allocator_watch.hpp"
#include "dry_cuda/report/call_notes.hpp"
#include "dry_cuda/runtime/thread_error.hpp"
#include "virtual_mappings.hpp"

#include <cuda.h>

#include <cstdint>
#include <limits>
#include <map>
#include <mutex>

namespace maxbatch::dry {
namespace {

constexpr std::uint64_t kGranule = DriverAddressSpace::kGranule;

struct PhysicalMemory {
  int device = 0;
  std::uint64_t bytes = 0;
  int users = 1;  // its handle, and every mapping
  bool has_handle = true;
};

struct Mapping {
  std::uint64_t bytes = 0;
  CUmemGenericAllocationHandle memory = 0;
};

struct VirtualMemory {
  std::mutex mutex;
  std::map<Address, Address> reserved;  // begin to end
  std::map<Address, Mapping> mapped;
  std::map<CUmemGenericAllocationHandle, PhysicalMemory> memory;
  CUmemGenericAllocationHandle next_handle = 0;

  /// With the lock held. Gives the memory back to its card with its last user.
  void drop(CUmemGenericAllocationHandle handle) {
    auto const found = memory.find(handle);
    if (--found->second.users > 0) { return; }
    Card::at(found->second.device).give_back(static_cast<std::int64_t>(found->second.bytes));
    memory.erase(found);
  }
  [[nodiscard]] bool overlaps_mapping(Address begin, std::uint64_t bytes) const {
    auto next = mapped.lower_bound(begin);
    if (next != mapped.end() && next->first - begin < bytes) { return true; }
    return next != mapped.begin() && begin - std::prev(next)->first < std::prev(next)->second.bytes;
  }
  [[nodiscard]] bool is_reserved(Address begin, std::uint64_t bytes) const {
    auto after = reserved.upper_bound(begin);
    return after != reserved.begin() && begin + bytes <= std::prev(after)->second;
  }
};

VirtualMemory& virtual_memory() {
  static auto* const all = new VirtualMemory;  // calls come until the very end of the process
  return *all;
}

bool is_granular(std::uint64_t value) { return value % kGranule == 0; }

CUresult reserve(CUdeviceptr* address, std::uint64_t bytes) {
  reserve_device_addresses();
  auto const all = virtual_addresses();
  std::lock_guard<std::mutex> const lock(virtual_memory().mutex);
  auto begin = all.begin;
  for (auto const& [other_begin, other_end] : virtual_memory().reserved) {
    if (other_begin - begin >= bytes) { break; }
    begin = other_end;
  }
  if (bytes > all.end - begin) { return CUDA_ERROR_OUT_OF_MEMORY; }
  virtual_memory().reserved.emplace(begin, begin + bytes);
  *address = begin;
  return CUDA_SUCCESS;
}

/// The mapping that holds `address`; null when none does. With the lock held.
Mapping const* find_mapping(Address address) {
  auto const& mapped = virtual_memory().mapped;
  auto after = mapped.upper_bound(address);
  if (after == mapped.begin()) { return nullptr; }
  --after;
  return address - after->first < after->second.bytes ? &after->second : nullptr;
}

}  // namespace

bool is_mapped(Address address) {
  std::lock_guard<std::mutex> const lock(virtual_memory().mutex);
  return find_mapping(address) != nullptr;
}

int device_of_mapping(Address address) {
  std::lock_guard<std::mutex> const lock(virtual_memory().mutex);
  auto const* const mapping = find_mapping(address);
  return mapping == nullptr ? 0 : virtual_memory().memory.at(mapping->memory).device;
}

}  // namespace maxbatch::dry

using namespace maxbatch::dry;  // NOLINT(google-build-using-namespace): entry points live outside

MAXBATCH_DRY_ENTRY CUresult cuMemGetAllocationGranularity(std::size_t* granularity, CUmemAllocationProp const* property,
                                                          CUmemAllocationGranularity_flags) {
  if (granularity == nullptr || property == nullptr) { return CUDA_ERROR_INVALID_VALUE; }
  *granularity = kGranule;
  return CUDA_SUCCESS;
}

MAXBATCH_DRY_ENTRY CUresult cuMemAddressReserve(CUdeviceptr* address, std::size_t bytes, std::size_t, CUdeviceptr,
                                                unsigned long long) {
  if (address == nullptr || bytes == 0 || !is_granular(bytes)) { return CUDA_ERROR_INVALID_VALUE; }
  return reserve(address, bytes);
}

MAXBATCH_DRY_ENTRY CUresult cuMemAddressFree(CUdeviceptr address, std::size_t bytes) {
  std::lock_guard<std::mutex> const lock(virtual_memory().mutex);
  auto& reserved = virtual_memory().reserved;
  auto const found = reserved.find(address);
  if (found == reserved.end() || found->second - found->first != bytes ||
      virtual_memory().overlaps_mapping(address, bytes)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  reserved.erase(found);
  return CUDA_SUCCESS;
}

MAXBATCH_DRY_ENTRY CUresult cuMemCreate(CUmemGenericAllocationHandle* handle, std::size_t bytes,
                                        CUmemAllocationProp const* property, unsigned long long) {
  if (handle == nullptr || property == nullptr || bytes == 0 || !is_granular(bytes)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (bytes > static_cast<std::size_t>(std::numeric_limits<std::int64_t>::max())) { return CUDA_ERROR_OUT_OF_MEMORY; }
  if (property->location.type != CU_MEM_LOCATION_TYPE_DEVICE) {
    return refuse("cuMemCreate of host memory", CUDA_ERROR_NOT_SUPPORTED);
  }
  if (auto const status = ready(); status != cudaSuccess) { return static_cast<CUresult>(status); }
  auto const device = property->location.id;
  if (device < 0 || device >= environment().devices) { return CUDA_ERROR_INVALID_DEVICE; }
  load_data_policies_once();
  start_allocator_watch();
  if (!Card::at(device).take(static_cast<std::int64_t>(bytes))) { return CUDA_ERROR_OUT_OF_MEMORY; }
  std::lock_guard<std::mutex> const lock(virtual_memory().mutex);
  *handle = ++virtual_memory().next_handle;
  virtual_memory().memory[*handle] = {device, bytes};
  return CUDA_SUCCESS;
}

MAXBATCH_DRY_ENTRY CUresult cuMemRelease(CUmemGenericAllocationHandle handle) {
  std::lock_guard<std::mutex> const lock(virtual_memory().mutex);
  auto const found = virtual_memory().memory.find(handle);
  if (found == virtual_memory().memory.end() || !found->second.has_handle) { return CUDA_ERROR_INVALID_VALUE; }
  found->second.has_handle = false;
  virtual_memory().drop(handle);
  return CUDA_SUCCESS;
}

MAXBATCH_DRY_ENTRY CUresult cuMemMap(CUdeviceptr address, std::size_t bytes, std::size_t offset,
                                     CUmemGenericAllocationHandle handle, unsigned long long) {
  std::lock_guard<std::mutex> const lock(virtual_memory().mutex);
  auto& all = virtual_memory();
  auto const found = all.memory.find(handle);
  if (found == all.memory.end() || !found->second.has_handle || offset != 0 || bytes != found->second.bytes ||
      !all.is_reserved(address, bytes) || all.overlaps_mapping(address, bytes)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  all.mapped[address] = {bytes, handle};
  ++found->second.users;
  return CUDA_SUCCESS;
}

MAXBATCH_DRY_ENTRY CUresult cuMemUnmap(CUdeviceptr address, std::size_t bytes) {
  std::lock_guard<std::mutex> const lock(virtual_memory().mutex);
  auto& all = virtual_memory();
  if (!all.is_reserved(address, bytes)) { return CUDA_ERROR_INVALID_VALUE; }
  // Everything mapped in the range goes; that nothing was is no error, as on a card.
  for (auto mapping = all.mapped.lower_bound(address);
       mapping != all.mapped.end() && mapping->first - address < bytes;) {
    all.drop(mapping->second.memory);
    mapping = all.mapped.erase(mapping);
  }
  return CUDA_SUCCESS;
}

MAXBATCH_DRY_ENTRY CUresult cuMemSetAccess(CUdeviceptr address, std::size_t, CUmemAccessDesc const* description,
                                           std::size_t) {
  return description != nullptr && is_mapped(address) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

MAXBATCH_DRY_ENTRY CUresult cuMemExportToShareableHandle(void*, CUmemGenericAllocationHandle, CUmemAllocationHandleType,
                                                         unsigned long long) {
  return refuse("cuMemExportToShareableHandle", CUDA_ERROR_NOT_SUPPORTED);
}
MAXBATCH_DRY_ENTRY CUresult cuMemImportFromShareableHandle(CUmemGenericAllocationHandle*, void*,
                                                           CUmemAllocationHandleType) {
  return refuse("cuMemImportFromShareableHandle", CUDA_ERROR_NOT_SUPPORTED);
}

MAXBATCH_DRY_ENTRY CUresult cuMemsetD32Async(CUdeviceptr address, unsigned, std::size_t count, CUstream) {
  forget_bytes(reinterpret_cast<void*>(address), count * sizeof(unsigned));  // NOLINT(performance-no-int-to-ptr)
  return CUDA_SUCCESS;
}
MAXBATCH_DRY_ENTRY CUresult cuStreamWriteValue32(CUstream, CUdeviceptr address, cuuint32_t value, unsigned) {
  remember_bytes(reinterpret_cast<void*>(address), &value, sizeof(value));  // NOLINT(performance-no-int-to-ptr)
  return CUDA_SUCCESS;
}
