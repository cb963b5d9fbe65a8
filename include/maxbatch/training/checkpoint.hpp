#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <vector>

namespace maxbatch {

/// A piece of a model: tensors in, one out. It must compute the same whenever it is called with the same inputs and the
/// same random numbers, and must not write into its inputs.
using CheckpointedFunction = std::function<at::Tensor(std::vector<at::Tensor> const& inputs)>;

/// function(inputs), of which autograd keeps the inputs alone: in the backward pass the function runs again, from the
/// random states (of the CPU's generator and of the device's) and under the autocast of the first time. Results and
/// gradients are the same, bit for bit where the kernels are deterministic. (Python's torch.utils.checkpoint does this.)
///
/// `parameters`: what the function reads besides its inputs and what gets gradients. Other tensors that it captures get
/// none. Buffers that it updates (running statistics) would be updated twice.
/// Where nothing records gradients, `function` is simply called.  Synchronises: no.
at::Tensor checkpoint(CheckpointedFunction const& function, std::vector<at::Tensor> const& inputs,
                      std::vector<at::Tensor> const& parameters);

}  // namespace maxbatch
