#include "memory_fraction_guard.hpp"

#include <ATen/cuda/CUDAContextLight.h>
#include <c10/cuda/CUDACachingAllocator.h>

#include <cmath>
#include <cstdint>

namespace maxbatch::detail {
namespace {

namespace allocator = c10::cuda::CUDACachingAllocator;

double total_bytes(c10::DeviceIndex device) {
  return static_cast<double>(at::cuda::getDeviceProperties(device)->totalGlobalMem);
}

void set_limit(c10::DeviceIndex device, std::optional<Bytes> limit) {
  auto const total = total_bytes(device);
  auto const wanted = limit ? static_cast<double>(limit->count) : total;
  allocator::setMemoryFraction(wanted < total ? (wanted + 0.5) / total : 1.0, device);
}

}  // namespace

std::optional<Bytes> allocator_limit(c10::DeviceIndex device) {
  auto const fraction = allocator::getMemoryFraction(device);
  if (fraction >= 1.0) { return std::nullopt; }
  return Bytes{static_cast<std::int64_t>(std::llround(fraction * total_bytes(device)))};
}

MemoryFractionGuard::MemoryFractionGuard(c10::DeviceIndex device, std::optional<Bytes> limit)
    : device_(device), changed_(limit.has_value()), before_(allocator_limit(device)) {
  if (changed_) { set_limit(device, limit); }
}

MemoryFractionGuard::~MemoryFractionGuard() {
  if (!changed_) { return; }
  try {
    set_limit(device_, before_);
  } catch (...) {  // NOLINT(bugprone-empty-catch): the value was accepted before
  }
}

}  // namespace maxbatch::detail
