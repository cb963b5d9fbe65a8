#include "detection/training_images.hpp"
#include "recipe_check.hpp"
#include "training_step.hpp"
#include <maxbatch/models/faster_rcnn.hpp>
#include <maxbatch/models/retinanet.hpp>

#include <torch/torch.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <string>
#include <utility>

namespace maxbatch::models {
namespace {

constexpr std::int64_t kSmallestSide = 32;  // of an image: a pixel of the coarsest map that has a stage of its own
// So small that weights stay what they are: random ones that learn from random images are no numbers after three steps.
constexpr double kLearningRate = 1e-7;

/// Branches that add little. Frozen norms of a model without trained weights normalise nothing, so that features would double
/// from block to block: fp16 has no numbers for the gradients then.
void quieten_frozen_branches(torch::nn::Module& network) {
  for (auto& item : network.named_buffers()) {
    if (item.key().find("bn3.weight") != std::string::npos) { item.value().fill_(0.25); }
  }
}

/// Images of this size, not resized.
template <typename Model>
void take_as_they_are(Model& model, ImageSize size) {
  model.resize_images_to(std::min(size.height, size.width), std::max(size.height, size.width));
}

template <typename Model, typename Options>
PreparedStep make_detector(std::string const& name, Options options, DetectionImages images, c10::Device device,
                           Recipe const& recipe) {
  check_recipe(name, recipe, device, kSmallestSide);
  check_detection_images(images);
  images.size = recipe.image_size.value_or(images.size);
  auto const network = std::make_shared<Model>(options, device);
  quieten_frozen_branches(*network);
  Learner learner;
  learner.module = network;
  learner.learning_rate = kLearningRate;
  learner.draw = [name, network, images, classes = options.classes](Trial const& trial) {
    auto of_trial = images;
    of_trial.size = trial.image_size().value_or(images.size);
    check_image_size(name, of_trial.size, kSmallestSide);
    take_as_they_are(*network, of_trial.size);
    auto const batch = std::make_shared<DetectionBatch>(draw_detection_batch(trial, of_trial, classes));
    return std::function<at::Tensor()>([network, batch] {
      if (network->is_training()) { return network->losses(batch->images, batch->targets).total(); }
      network->detect(batch->images);
      return at::Tensor();
    });
  };
  return prepare_training_step(std::move(learner), recipe);
}

template <typename Model, typename Options>
ModelFactory make_factory(std::string name, std::string description, Options const& options,
                          DetectionImages const& images) {
  ModelFactory factory;
  factory.name = std::move(name);
  factory.description = std::move(description);
  factory.image_size = images.size;
  factory.parameters = parameter_count(options);
  factory.make = [name = factory.name, options, images](c10::Device device, Recipe const& recipe) {
    return make_detector<Model>(name, options, images, device, recipe);
  };
  return factory;
}

/// The same three for every detector.
template <typename Options, typename Make>
std::vector<ModelFactory> three_factories(std::string const& name, std::string const& what, Make const& make) {
  DetectionImages easy;
  easy.both_orientations = false;
  easy.boxes = 10;
  Options from_scratch;
  from_scratch.norm = NormKind::batch;
  from_scratch.trained_parts = 5;
  auto hardest = make(name, what + ", frozen norms, images lying and standing (padded to 1333x1333), 100 boxes each",
                      Options{}, DetectionImages{});
  hardest.easy_twin = name + "_landscape";
  return {
      std::move(hardest),
      make(name + "_landscape", what + ", frozen norms, all images lying, 10 boxes each", Options{}, easy),
      make(name + "_from_scratch", what + ", everything trained, all images lying, 10 boxes each", from_scratch, easy)};
}

}  // namespace

ModelFactory faster_rcnn_factory(std::string name, std::string description, FasterRcnnOptions const& options,
                                 DetectionImages const& images) {
  return make_factory<FasterRcnn>(std::move(name), std::move(description), options, images);
}

ModelFactory retinanet_factory(std::string name, std::string description, RetinaNetOptions const& options,
                               DetectionImages const& images) {
  return make_factory<RetinaNet>(std::move(name), std::move(description), options, images);
}

std::vector<ModelFactory> faster_rcnn_factories() {
  return three_factories<FasterRcnnOptions>("faster_rcnn", "Faster R-CNN, ResNet-50 FPN", faster_rcnn_factory);
}

std::vector<ModelFactory> retinanet_factories() {
  return three_factories<RetinaNetOptions>("retinanet", "RetinaNet, ResNet-50 FPN", retinanet_factory);
}

}  // namespace maxbatch::models
