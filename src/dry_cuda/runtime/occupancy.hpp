#pragma once

#include "kernel_resources.hpp"

#include <cstddef>

namespace maxbatch::dry {

/// How many blocks of a kernel fit a multiprocessor of the card together, by NVIDIA's published calculation
/// (cuda_occupancy.h). 0: such a block cannot run.
int resident_blocks(KernelResources const& kernel, int block_threads, std::size_t dynamic_shared_bytes);

/// The largest block of a kernel: its registers may not suffice for 1024 threads.
int most_block_threads(KernelResources const& kernel);

}  // namespace maxbatch::dry
