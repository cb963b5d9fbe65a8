#pragma once

#include <functional>

namespace maxbatch::cli {

/// A tensor on the CUDA device, and what fills it: LibTorch compiles that kernel with others that assert, so the first such
/// call of a process moves the driver's local memory (dry_cuda/memory/driver_pieces.hpp). The call returns when the card is
/// done.  Throws: c10::Error, from both.
std::function<void()> asserting_kernel(int device);

}  // namespace maxbatch::cli
