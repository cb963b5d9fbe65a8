#pragma once

#include "child_process.hpp"

#include <filesystem>

namespace maxbatch::process {

/// Variables for programs on a dry card that compile kernels as they run (torch.compile, Triton). Triton links its launcher with the
/// driver's library, which it finds where TRITON_LIBCUDA_PATH says: a folder beside our library in the build, or in the user's cache, where that
/// name leads to ours.
/// What is compiled so, and what Inductor measures there, stays apart from what real cards have left in their caches.
/// None where the folder cannot be made: Triton then says that there is no libcuda.so.1.
EnvironmentChanges compiler_surroundings(std::filesystem::path const& dry_cuda_library);

}  // namespace maxbatch::process
