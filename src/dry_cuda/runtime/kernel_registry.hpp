#pragma once

#include <cuda_runtime_api.h>

#include <string>

namespace maxbatch::dry {

/// Every kernel that a module of the process registered, by the host function that stands for it.
void register_kernel(void const* host_function, char const* name);

/// cudaSuccess, or what CUDA says of a function that is no kernel.
cudaError_t check_kernel(void const* host_function);

/// cudaFuncAttributeMaxDynamicSharedMemorySize of a kernel.
void set_most_dynamic_shared_bytes(void const* host_function, int bytes);
int most_dynamic_shared_bytes(void const* host_function);

/// Registers of a thread of any kernel, which nobody tells us: they are in the machine code, whose form is private. Enters
/// occupancy only.
constexpr int kAssumedRegisters = 40;

/// Where a module's variable lies on the card: device memory of the driver's, never the same for two variables.
cudaError_t symbol_address(void const* symbol, void** address);

/// How many blocks fit a multiprocessor together.
int resident_blocks(int block_threads, std::size_t dynamic_shared_bytes);

}  // namespace maxbatch::dry
