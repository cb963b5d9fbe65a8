#pragma once

#include <cstddef>

namespace maxbatch::dry {

/// At the process' first allocation: if LibTorch is in it, loads the data policies for that LibTorch from beside this
/// library. Says in one sentence on standard error when it cannot; what depends on data is then answered with zeros.
/// Call it with no lock held. Threads: any; only the first caller does anything, and nobody waits for it.
void load_data_policies_once() noexcept;

/// Whether the policies know what a copy from device to host finds.
bool answer_read(void* host, void const* device, std::size_t bytes) noexcept;
/// Tells them that this thread had device memory written.
void tell_device_memory_written() noexcept;
/// Tells them that anything may have been written: a collective's tensors are named by no operator's schema.
void tell_anything_written() noexcept;

}  // namespace maxbatch::dry
