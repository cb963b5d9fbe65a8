#include <maxbatch/impl/nearest_name.hpp>
#include <maxbatch/models/faster_rcnn.hpp>
#include <maxbatch/models/gpt2.hpp>
#include <maxbatch/models/registry.hpp>
#include <maxbatch/models/resnet.hpp>
#include <maxbatch/models/retinanet.hpp>
#include <maxbatch/models/small_cnn.hpp>
#include <maxbatch/models/small_transformer.hpp>
#include <maxbatch/models/swin_transformer.hpp>
#include <maxbatch/models/vision_transformer.hpp>
#include <maxbatch/search/errors.hpp>

#include <algorithm>
#include <string>
#include <utility>

namespace maxbatch::models {

ModelRegistry ModelRegistry::built_in() {
  ModelRegistry registry;
  registry.add(small_cnn());
  registry.add(small_transformer());
  registry.add(resnet50());
  for (auto& factory : swin_factories()) { registry.add(std::move(factory)); }
  for (auto& factory : vision_transformer_factories()) { registry.add(std::move(factory)); }
  for (auto& factory : gpt2_factories()) { registry.add(std::move(factory)); }
  for (auto& factory : faster_rcnn_factories()) { registry.add(std::move(factory)); }
  for (auto& factory : retinanet_factories()) { registry.add(std::move(factory)); }
  return registry;
}

ModelRegistry& ModelRegistry::add(ModelFactory factory) {
  if (factory.name.empty()) { throw InvalidArgument("a model needs a name, by which `at` finds it"); }
  if (!factory.make) {
    throw InvalidArgument("the model '" + factory.name + "' has no `make`: nothing would build it");
  }
  auto const taken = std::any_of(factories_.begin(), factories_.end(),
                                 [&](ModelFactory const& known) { return known.name == factory.name; });
  if (taken) { throw InvalidArgument("a model named '" + factory.name + "' is there already: choose another name"); }
  factories_.push_back(std::move(factory));
  return *this;
}

ModelFactory const& ModelRegistry::at(std::string_view name) const {
  std::vector<std::string> names;
  for (auto const& factory : factories_) {
    if (factory.name == name) { return factory; }
    names.push_back(factory.name);
  }
  std::string text = "there is no model '" + std::string(name) + "'";
  if (auto const nearest = detail::nearest_name(name, names)) { text += "; did you mean '" + *nearest + "'?"; }
  text += names.empty() ? " No model is registered." : (text.back() == '?' ? " Known: " : "; known: ");
  for (std::size_t i = 0; i < names.size(); ++i) { text += (i == 0 ? "" : ", ") + names[i]; }
  throw InvalidArgument(text);
}

}  // namespace maxbatch::models
