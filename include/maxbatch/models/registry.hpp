#pragma once

#include <maxbatch/training/model_factory.hpp>

#include <string_view>
#include <vector>

namespace maxbatch::models {

/// Model factories by name: a plain value. `ModelRegistry::built_in()` starts with those that come with maxbatch, and a
/// program adds its own: `registry.add({"my_net", "…", ImageSize{32, 32}, make_my_net})`.
class ModelRegistry {
 public:
  static ModelRegistry built_in();

  /// Throws: InvalidArgument for an empty name, a name that is taken, or no `make`.
  ModelRegistry& add(ModelFactory factory);
  /// Throws: InvalidArgument for an unknown name; the text lists those that are known and the nearest one.
  ModelFactory const& at(std::string_view name) const;
  std::vector<ModelFactory> const& all() const { return factories_; }

 private:
  std::vector<ModelFactory> factories_;
};

}  // namespace maxbatch::models
