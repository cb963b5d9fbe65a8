#pragma once

#include <torch/nn/module.h>

#include <memory>
#include <string>
#include <utility>

namespace maxbatch::models {

/// Registers a layer below others that do nothing, as Python's containers of containers do: nested(*this, {"conv", "0"},
/// "0", layer) names its weight "conv.0.0.weight". Levels that are there are used.
template <typename Layer>
std::shared_ptr<Layer> nested(torch::nn::Module& root, std::initializer_list<std::string> path, std::string const& name,
                              std::shared_ptr<Layer> layer) {
  auto* at = &root;
  for (auto const& level : path) {
    auto const children = at->named_children();
    auto const* const known = children.find(level);
    at = known != nullptr ? known->get() : at->register_module(level, std::make_shared<torch::nn::Module>()).get();
  }
  return at->register_module(name, std::move(layer));
}

}  // namespace maxbatch::models
