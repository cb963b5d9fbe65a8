#pragma once

#include <c10/core/Device.h>

/// What makes a CUDA device useless for a search. Each throws DeviceUnavailable with one sentence that says what to do.
namespace maxbatch::detail {

/// No device of that index. Makes no context.
void check_present(c10::DeviceIndex index);
/// An integrated GPU, whose memory is the machine's. Makes no context.
void check_own_memory(c10::DeviceIndex index);
/// Another allocator than the native one, or one that does not cache: when CUDA has been initialised.
void check_allocator();
/// The current stream of `index` captures a graph.
void check_no_capture(c10::DeviceIndex index);

}  // namespace maxbatch::detail
