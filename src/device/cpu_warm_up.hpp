#pragma once

namespace maxbatch::detail {

/// Runs a convolution, a product and a reduction forward and backward in fp32 and bf16, on a few kilobytes, so that what
/// the CPU back-end makes once is made: the thread pools, oneDNN's engine and MKL's buffers, autograd's engine.
/// Touches no random generator, no mode and no default of the caller.
void warm_up_cpu();

}  // namespace maxbatch::detail
