#pragma once

#include <c10/core/Device.h>

namespace maxbatch::detail {

/// Makes what the first step on a device would otherwise make in a trial: the context, a cuBLAS handle for this thread
/// and one for autograd's, the modules of the commonest kernels. Not cuDNN, which many models do without and which takes
/// memory from the device for good: it comes with the first convolution, in the search's smallest trial.
/// Synchronises: yes.  Throws: what LibTorch throws.
void warm_up_cuda(c10::Device device);

/// Whether kernels still run on the device and give the right result; false after a sticky error. Clears the last error
/// of the CUDA runtime. Takes nothing from the caching allocator, so it works where memory has run out.
/// `runs_kernels`: false on a dry card, where no kernel has a result.
/// Synchronises: yes.
bool answers_rightly(c10::Device device, bool runs_kernels) noexcept;

}  // namespace maxbatch::detail
