#include "classification_step.hpp"
#include "recipe_check.hpp"
#include <maxbatch/models/small_cnn.hpp>

#include <torch/torch.h>

namespace maxbatch::models {
namespace {

constexpr char const* kName = "small_cnn";
constexpr std::int64_t kClasses = 10;
constexpr ImageSize kImageSize{32, 32};
constexpr std::int64_t kSmallestSide = 8;  // halved three times

struct SmallCnn : torch::nn::Module {
  SmallCnn() {
    std::int64_t in = 3;
    for (std::int64_t const out : {16, 32, 64}) {
      for (std::int64_t const from : {in, out}) {
        // No bias: the batch norm that follows has one.
        features->push_back(torch::nn::Conv2d(torch::nn::Conv2dOptions(from, out, 3).padding(1).bias(false)));
        features->push_back(torch::nn::BatchNorm2d(out));
        features->push_back(torch::nn::ReLU(torch::nn::ReLUOptions().inplace(true)));
      }
      features->push_back(torch::nn::MaxPool2d(2));
      in = out;
    }
    features->push_back(torch::nn::AdaptiveAvgPool2d(1));
    features->push_back(torch::nn::Flatten());
    register_module("features", features);
    register_module("classify", classify);
  }

  at::Tensor forward(at::Tensor const& images) { return classify->forward(features->forward(images)); }

  torch::nn::Sequential features;
  torch::nn::Linear classify{64, kClasses};
};

PreparedStep make_small_cnn(c10::Device device, Recipe const& recipe) {
  RecipeAbilities abilities;
  abilities.smallest_side = kSmallestSide;
  abilities.channels_last = true;
  check_recipe(kName, recipe, device, abilities);
  auto const network = std::make_shared<SmallCnn>();
  network->to(device);
  Classifier classifier;
  classifier.module = network;
  classifier.forward = [network](at::Tensor const& images) { return network->forward(images); };
  classifier.draw_inputs = [own = recipe.image_size.value_or(kImageSize)](Trial const& trial) {
    auto const size = trial.image_size().value_or(own);
    check_image_size(kName, size, kSmallestSide);
    return torch::randn({trial.batch_size(), 3, size.height, size.width}, trial.device());
  };
  classifier.classes = kClasses;
  return prepare_classification_step(std::move(classifier), recipe);
}

}  // namespace

ModelFactory small_cnn() {
  return {kName, "six 3x3 convolutions with batch norm, 0.07 M parameters, RGB images, 10 classes", kImageSize,
          make_small_cnn};
}

}  // namespace maxbatch::models
