#include "classification_step.hpp"
#include "recipe_check.hpp"
#include <maxbatch/models/swin_transformer.hpp>

#include <torch/torch.h>

#include <utility>

namespace maxbatch::models {
namespace {

PreparedStep make_swin(std::string const& name, SwinOptions options, c10::Device device, Recipe const& recipe) {
  RecipeAbilities abilities;
  abilities.smallest_side = options.patch_size;
  abilities.checkpoint = true;
  check_recipe(name, recipe, device, abilities);
  options.checkpoint = recipe.checkpoint;
  options.image_size = recipe.image_size.value_or(options.image_size);
  auto const network = std::make_shared<SwinTransformer>(options, device);
  Classifier classifier;
  classifier.module = network;
  classifier.forward = [network](at::Tensor const& images) { return network->forward(images); };
  classifier.draw_inputs = [name, options](Trial const& trial) {
    auto const size = trial.image_size().value_or(options.image_size);
    check_image_size(name, size, options.patch_size);
    return torch::randn({trial.batch_size(), 3, size.height, size.width}, trial.device());
  };
  classifier.classes = options.classes;
  return prepare_classification_step(std::move(classifier), recipe);
}

}  // namespace

ModelFactory swin_factory(std::string name, std::string description, SwinOptions const& options) {
  ModelFactory factory;
  factory.name = std::move(name);
  factory.description = std::move(description);
  factory.image_size = options.image_size;
  factory.parameters = parameter_count(options);
  factory.make = [name = factory.name, options](c10::Device device, Recipe const& recipe) {
    return make_swin(name, options, device, recipe);
  };
  return factory;
}

std::vector<ModelFactory> swin_factories() {
  struct Named {
    std::string name;
    std::string description;
    SwinOptions options;
  };
  std::vector<ModelFactory> factories;
  for (auto const& [name, description, options] :
       {Named{"swin_t", "Swin-T, windows of 7x7", swin_tiny_options()},
        Named{"swin_s", "Swin-S, windows of 7x7", swin_small_options()},
        Named{"swin_b", "Swin-B, windows of 7x7", swin_base_options()},
        Named{"swin_l", "Swin-L, windows of 7x7", swin_large_options()},
        Named{"swin_b_384", "Swin-B, windows of 12x12", for_384(swin_base_options())},
        Named{"swin_l_384", "Swin-L, windows of 12x12", for_384(swin_large_options())}}) {
    factories.push_back(swin_factory(name, description + ", 1000 classes", options));
    auto fused = options;
    fused.attention = Attention::fused;
    factories.push_back(swin_factory(name + "_fused", description + ", 1000 classes, fused attention", fused));
  }
  return factories;
}

}  // namespace maxbatch::models
