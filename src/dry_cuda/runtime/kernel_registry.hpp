#pragma once

#include "dry_cuda/memory/driver_pieces.hpp"
#include "kernel_resources.hpp"

#include <cuda_runtime_api.h>

#include <optional>

namespace maxbatch::dry {

/// A module of the process, compiled together; a handle.
void* register_module();
/// Every kernel that a module registered, by the host function that stands for it.
void register_kernel(void* module, void const* host_function, char const* name);

/// What the driver loads for it; nothing when it has been launched on that device before.
std::optional<KernelCode> first_launch(void const* host_function, int device);

/// Whether the table of asserting kernels knows any of the process's modules: LibTorch of the version that it was made from.
bool asserting_kernels_are_known();

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
