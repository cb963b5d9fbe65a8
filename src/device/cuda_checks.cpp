#include "cuda_checks.hpp"

#include <maxbatch/device/cuda_device.hpp>

#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAStream.h>

#include <cuda_runtime_api.h>

#include <cstdlib>
#include <string>

namespace maxbatch::detail {
namespace {

namespace allocator = c10::cuda::CUDACachingAllocator;

constexpr char const* kCachingSwitch = "PYTORCH_NO_CUDA_MEMORY_CACHING";

std::string name_of(c10::DeviceIndex index) { return "cuda:" + std::to_string(index); }

}  // namespace

void check_present(c10::DeviceIndex index) {
  int const count = c10::cuda::device_count();
  if (count == 0) {
    throw DeviceUnavailable(
        "There is no " + name_of(index) +
        ": no CUDA driver or no GPU is to be seen by this process (CUDA_VISIBLE_DEVICES hides some). "
        "`maxbatch dry-run --card NAME -- PROGRAM` runs the same program on a card that is not here");
  }
  if (index < 0 || index >= count) {
    throw DeviceUnavailable("There is no " + name_of(index) + ": this process sees " + std::to_string(count) +
                            (count == 1 ? " CUDA device, cuda:0" : " CUDA devices, cuda:0 to cuda:") +
                            (count == 1 ? "" : std::to_string(count - 1)));
  }
}

void check_own_memory(c10::DeviceIndex index) {
  int integrated = 0;
  if (cudaDeviceGetAttribute(&integrated, cudaDevAttrIntegrated, index) == cudaSuccess && integrated != 0) {
    throw DeviceUnavailable(name_of(index) +
                            " is an integrated GPU, whose memory is the machine's: a budget would mean nothing there. "
                            "Search on a card with memory of its own, or on a dry one");
  }
}

void check_allocator() {
  auto const backend = allocator::name();
  if (backend != "native") {
    throw DeviceUnavailable(
        "LibTorch's CUDA memory comes from the allocator '" + backend +
        "', where a budget would mean nothing: take the native one (no `backend:cudaMallocAsync` in "
        "PYTORCH_ALLOC_CONF or PYTORCH_CUDA_ALLOC_CONF, no pluggable allocator)");
  }
  if (!allocator::isEnabled() || std::getenv(kCachingSwitch) != nullptr) {
    throw DeviceUnavailable(
        std::string("LibTorch's caching of CUDA memory is switched off, so a budget would mean nothing: "
                    "unset ") +
        kCachingSwitch + ", or call c10::cuda::CUDACachingAllocator::enable(true)");
  }
}

void check_no_capture(c10::DeviceIndex index) {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  C10_CUDA_CHECK(cudaStreamIsCapturing(c10::cuda::getCurrentCUDAStream(index), &status));
  if (status != cudaStreamCaptureStatusNone) {
    throw DeviceUnavailable("A CUDA graph is being captured on the current stream of " + name_of(index) +
                            ", where memory is not flushed and a budget would mean nothing: end the capture first");
  }
}

}  // namespace maxbatch::detail
