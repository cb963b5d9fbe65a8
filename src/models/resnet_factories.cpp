#include "classification_step.hpp"
#include "recipe_check.hpp"
#include <maxbatch/models/resnet.hpp>

#include <torch/torch.h>

#include <utility>

namespace maxbatch::models {
namespace {

constexpr ImageSize kImageSize{224, 224};
constexpr std::int64_t kSmallestSide = 32;  // halved five times

PreparedStep make_resnet(std::string const& name, ResNetOptions options, c10::Device device, Recipe const& recipe) {
  RecipeAbilities abilities;
  abilities.smallest_side = kSmallestSide;
  abilities.checkpoint = true;
  abilities.channels_last = true;
  check_recipe(name, recipe, device, abilities);
  options.checkpoint = options.checkpoint || recipe.checkpoint;
  auto const network = std::make_shared<ResNet>(options, device);
  Classifier classifier;
  classifier.module = network;
  classifier.forward = [network](at::Tensor const& images) { return network->forward(images); };
  classifier.draw_inputs = [name, own = recipe.image_size.value_or(kImageSize)](Trial const& trial) {
    auto const size = trial.image_size().value_or(own);
    check_image_size(name, size, kSmallestSide);
    return torch::randn({trial.batch_size(), 3, size.height, size.width}, trial.device());
  };
  classifier.classes = options.classes;
  return prepare_classification_step(std::move(classifier), recipe);
}

}  // namespace

ModelFactory resnet_factory(std::string name, std::string description, ResNetOptions const& options) {
  ModelFactory factory;
  factory.name = std::move(name);
  factory.description = std::move(description);
  factory.image_size = kImageSize;
  factory.parameters = parameter_count(options);
  factory.make = [name = factory.name, options](c10::Device device, Recipe const& recipe) {
    return make_resnet(name, options, device, recipe);
  };
  return factory;
}

ModelFactory resnet50() { return resnet_factory("resnet50", "ResNet-50, batch norm, 1000 classes", {}); }

}  // namespace maxbatch::models
