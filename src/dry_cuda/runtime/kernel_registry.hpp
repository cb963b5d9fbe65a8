#pragma once

#include "kernel_resources.hpp"

#include <cuda_runtime_api.h>

namespace maxbatch::dry {

/// Every kernel that a module of the process registered, by the host function that stands for it.
void register_kernel(void const* host_function, char const* name);

/// cudaSuccess, or what CUDA says of a function that is no kernel.
cudaError_t check_kernel(void const* host_function);

/// cudaFuncAttributeMaxDynamicSharedMemorySize of a kernel.
void set_most_dynamic_shared_bytes(void const* host_function, int bytes);
int most_dynamic_shared_bytes(void const* host_function);

/// What the tables know of it.
KernelResources resources_of(void const* host_function);

/// Where a module's variable lies on the card: device memory of the driver's, never the same for two variables.
cudaError_t symbol_address(void const* symbol, void** address);

}  // namespace maxbatch::dry
