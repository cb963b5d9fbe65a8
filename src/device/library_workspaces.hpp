#pragma once

#include <c10/core/Device.h>

namespace maxbatch::detail {

/// Frees the workspaces that LibTorch keeps for cuBLAS and cuBLASLt on one device, one per handle and stream: memory of
/// the caching allocator's that no tensor owns. They are made again when they are needed.
/// Those of other devices stay: a trial may be running there.  Synchronises: no.
void release_library_workspaces(c10::DeviceIndex device);

}  // namespace maxbatch::detail
