#include "library_workspaces.hpp"

#include <ATen/cuda/CUDAContextLight.h>

#include <iterator>
#include <mutex>
#include <shared_mutex>

namespace maxbatch::detail {
namespace {

void release(at::cuda::WorkspaceMapWithMutex& workspaces, c10::DeviceIndex device) {
  std::unique_lock<std::shared_mutex> const lock(workspaces.mutex);
  for (auto entry = workspaces.map.begin(); entry != workspaces.map.end();) {
    entry = entry->second.device().index() == device ? workspaces.map.erase(entry) : std::next(entry);
  }
}

}  // namespace

void release_library_workspaces(c10::DeviceIndex device) {
  release(at::cuda::cublas_handle_stream_to_workspace(), device);
  release(at::cuda::cublaslt_handle_stream_to_workspace(), device);
}

}  // namespace maxbatch::detail
