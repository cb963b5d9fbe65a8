#include "capture.hpp"
#include "current_device.hpp"
#include "dry_cuda/card_profile.hpp"
#include "dry_cuda/entry_point.hpp"
#include "dry_cuda/memory/card.hpp"
#include "dry_cuda/memory/known_bytes.hpp"
#include "dry_cuda/policies/policy_hooks.hpp"
#include "kernel_registry.hpp"
#include "launch.hpp"
#include "occupancy.hpp"
#include "order.hpp"
#include "stream_handle.hpp"
#include "thread_error.hpp"

#include <cuda_runtime_api.h>

namespace maxbatch::dry {
namespace {

bool is_legal(dim3 const& grid, dim3 const& block) {
  // The same on every card since Kepler.
  constexpr std::uint64_t kMostThreads = 1024;
  auto const threads = std::uint64_t{block.x} * block.y * block.z;
  return threads > 0 && threads <= kMostThreads && block.z <= 64 && grid.x > 0 && grid.x <= 2147483647U && grid.y > 0 &&
         grid.y <= 65535 && grid.z > 0 && grid.z <= 65535;
}

}  // namespace

cudaError_t launch(dim3 const& grid, dim3 const& block, std::size_t dynamic_shared_bytes, std::size_t most_shared_bytes,
                   cudaStream_t stream) {
  if (auto const status = ready(); status != cudaSuccess) { return status; }
  // Not cudaErrorInvalidConfiguration: an H200 with CUDA 13.0 says this of every limit (tests/device/launch_limits.cu).
  if (!is_legal(grid, block)) { return cudaErrorInvalidValue; }
  if (dynamic_shared_bytes > most_shared_bytes) { return cudaErrorInvalidValue; }
  if (!is_stream(stream)) { return cudaErrorInvalidResourceHandle; }
  bool captured = false;
  if (auto const status = submit(stream, &captured); status != cudaSuccess) { return status; }
  Card::current().count_launch();
  if (captured) { return cudaSuccess; }
  forget_all_bytes();
  tell_device_memory_written();
  note_work();
  return cudaSuccess;
}

namespace {

cudaError_t launch_kernel(void const* function, dim3 const& grid, dim3 const& block, std::size_t shared_bytes,
                          cudaStream_t stream) {
  if (auto const status = check_kernel(function); status != cudaSuccess) { return status; }
  auto const status =
      launch(grid, block, shared_bytes, static_cast<std::size_t>(most_dynamic_shared_bytes(function)), stream);
  if (status == cudaSuccess) {
    if (auto const code = first_launch(function, current_device())) { Card::current().note_kernel_loaded(*code); }
  }
  return status;
}

}  // namespace
}  // namespace maxbatch::dry

using namespace maxbatch::dry;  // NOLINT(google-build-using-namespace): entry points live outside

MAXBATCH_DRY_ENTRY cudaError_t cudaLaunchKernel(void const* function, dim3 grid, dim3 block, void**,
                                                std::size_t shared_bytes, cudaStream_t stream) {
  return finish(launch_kernel(function, grid, block, shared_bytes, stream));
}
MAXBATCH_DRY_ENTRY cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3 grid, dim3 block, void**,
                                                  std::size_t shared_bytes, cudaStream_t stream) {
  return finish(launch_kernel(kernel, grid, block, shared_bytes, stream));
}
MAXBATCH_DRY_ENTRY cudaError_t cudaLaunchCooperativeKernel(void const* function, dim3 grid, dim3 block, void**,
                                                           std::size_t shared_bytes, cudaStream_t stream) {
  auto const status = launch_kernel(function, grid, block, shared_bytes, stream);
  if (status != cudaSuccess) { return finish(status); }
  // All blocks have to be resident at once.
  auto const threads = static_cast<int>(block.x * block.y * block.z);
  auto const blocks = std::uint64_t{grid.x} * grid.y * grid.z;
  auto const most = static_cast<std::uint64_t>(resident_blocks(resources_of(function), threads, shared_bytes)) *
                    static_cast<std::uint64_t>(card_profile().multiprocessors);
  return finish(blocks <= most ? cudaSuccess : cudaErrorCooperativeLaunchTooLarge);
}
MAXBATCH_DRY_ENTRY cudaError_t cudaLaunchKernelExC(cudaLaunchConfig_t const* configuration, void const* function,
                                                   void**) {
  if (configuration == nullptr) { return finish(cudaErrorInvalidValue); }
  return finish(launch_kernel(function, configuration->gridDim, configuration->blockDim,
                              configuration->dynamicSmemBytes, configuration->stream));
}
