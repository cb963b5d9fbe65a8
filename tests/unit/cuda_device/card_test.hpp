#pragma once

#include <maxbatch/device/cuda_device.hpp>

#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAFunctions.h>

#include <gtest/gtest.h>

#include <cstdint>
#include <cstdlib>

namespace maxbatch::test {

namespace allocator = c10::cuda::CUDACachingAllocator;

/// Runs on the card that is there, dry or real, and skips where there is none. The dry one is brought by ctest:
/// `maxbatch dry-run --card NAME -- cuda_device_test`.
class CardTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (c10::cuda::device_count() == 0) {
      GTEST_SKIP() << "there is no CUDA device, dry or real; ctest runs these on dry cards";
    }
    device = cuda_device(0);
    device->release_cached_memory();
  }

  static bool is_dry() { return std::getenv("MAXBATCH_CARD") != nullptr; }

  std::shared_ptr<CudaDevice> device;
};

constexpr std::size_t kAll = 0;  // of a StatArray: both pools together

inline auto stats(c10::DeviceIndex index = 0) { return allocator::getDeviceStats(index); }
inline std::int64_t allocated_now(c10::DeviceIndex index = 0) { return stats(index).allocated_bytes[kAll].current; }
inline std::int64_t reserved_now(c10::DeviceIndex index = 0) { return stats(index).reserved_bytes[kAll].current; }

/// The allocator's own peaks since they were last reset.
inline MemoryPeaks peaks_of_allocator(c10::DeviceIndex index = 0) {
  auto const now = stats(index);
  return {Bytes{now.requested_bytes[kAll].peak}, Bytes{now.allocated_bytes[kAll].peak},
          Bytes{now.active_bytes[kAll].peak}, Bytes{now.reserved_bytes[kAll].peak}};
}

/// Memory of the caching allocator without a tensor around it.
inline c10::DataPtr bytes_of_card(std::size_t count) { return allocator::get()->allocate(count); }

}  // namespace maxbatch::test
