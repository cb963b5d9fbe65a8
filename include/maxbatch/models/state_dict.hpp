#pragma once

#include <torch/nn/module.h>

#include <string>
#include <vector>

namespace maxbatch::models {

/// Copies the tensors of a state dict into a module's parameters and buffers of the same names, in place, whatever device
/// either is on. `file` is what `torch.save(model.state_dict(), file)` writes in Python (the zip format, the default since
/// PyTorch 1.6); nothing of it is executed. Floating-point types convert, as Python's `load_state_dict` does.
///
/// `derived`: what the module computes for itself or has twice, by the last part of its name ("attn_mask") or by the whole
/// ("lm_head.weight"): not asked of the file, and skipped there.  Throws: InvalidArgument for a file that holds no dict of tensors, and for entries that are missing, unexpected
/// or of another shape, naming them; the module is unchanged then.
void load_state_dict(torch::nn::Module& module, std::string const& file, std::vector<std::string> const& derived = {});

}  // namespace maxbatch::models
