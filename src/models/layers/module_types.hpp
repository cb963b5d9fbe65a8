#pragma once

#include <torch/nn/module.h>

namespace maxbatch::models {

/// Changes the type of a module's floating-point parameters and buffers, as Python's `Module.to(dtype)` does; LibTorch's
/// own would change counters and index tables too.
inline void change_floating_point_type(torch::nn::Module& module, c10::ScalarType dtype, bool non_blocking) {
  for (auto& parameter : module.parameters()) { parameter.set_data(parameter.to(dtype, non_blocking)); }
  for (auto& buffer : module.buffers()) {
    if (buffer.is_floating_point()) { buffer.set_data(buffer.to(dtype, non_blocking)); }
  }
}

}  // namespace maxbatch::models
