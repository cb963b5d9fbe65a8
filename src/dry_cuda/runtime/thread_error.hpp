#pragma once

#include <cuda_runtime_api.h>

namespace maxbatch::dry {

/// Every call of the runtime that fails leaves its error to its thread, for cudaGetLastError. Gives back `status`.
cudaError_t finish(cudaError_t status) noexcept;

/// What a call that works on a device begins with: whether there is one. cudaErrorNoDevice where nobody named a card,
/// cudaErrorInitializationError in a child that was forked from a process with a context.
cudaError_t ready();

}  // namespace maxbatch::dry
