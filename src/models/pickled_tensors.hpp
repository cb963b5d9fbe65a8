#pragma once

#include <ATen/core/Tensor.h>

#include <map>
#include <string>

namespace maxbatch::models {

/// The tensors of a dict that `torch.save(dict, file)` wrote in Python's zip format, by key; on the CPU.
///
/// torch::pickle_load is not enough: it cannot read what `state_dict()` returns, an OrderedDict with an attribute. Only
/// data is built here: names of classes are compared, never looked up, and nothing is called.
/// Throws: InvalidArgument, saying what the file holds instead.
std::map<std::string, at::Tensor> read_pickled_tensors(std::string const& file);

}  // namespace maxbatch::models
