#include "classification_step.hpp"
#include "recipe_check.hpp"
#include <maxbatch/models/small_transformer.hpp>

#include <torch/torch.h>

namespace maxbatch::models {
namespace {

constexpr char const* kName = "small_transformer";
constexpr std::int64_t kClasses = 10;
constexpr std::int64_t kVocabulary = 1000;
constexpr std::int64_t kTokens = 64;
constexpr std::int64_t kWidth = 128;
constexpr std::int64_t kHeads = 4;
constexpr std::int64_t kLayers = 2;

struct SmallTransformer : torch::nn::Module {
  SmallTransformer() {
    register_module("embed", embed);
    register_module("encode", encode);
    register_module("classify", classify);
    positions = register_parameter("positions", torch::randn({kTokens, 1, kWidth}) * 0.02);
  }

  /// [N, tokens] to [N, classes]
  at::Tensor forward(at::Tensor const& tokens) {
    auto const embedded = embed->forward(tokens.t()) + positions;  // LibTorch's encoder wants [tokens, N, width]
    return classify->forward(encode->forward(embedded).mean(/*dim=*/0));
  }

  torch::nn::Embedding embed{kVocabulary, kWidth};
  torch::nn::TransformerEncoder encode{
      torch::nn::TransformerEncoderLayer(
          torch::nn::TransformerEncoderLayerOptions(kWidth, kHeads).dim_feedforward(4 * kWidth)),
      kLayers};
  torch::nn::Linear classify{kWidth, kClasses};
  at::Tensor positions;
};

PreparedStep make_small_transformer(c10::Device device, Recipe const& recipe) {
  check_recipe(kName, recipe, device, std::nullopt);
  auto const network = std::make_shared<SmallTransformer>();
  network->to(device);
  Classifier classifier;
  classifier.module = network;
  classifier.forward = [network](at::Tensor const& tokens) { return network->forward(tokens); };
  classifier.draw_inputs = [](Trial const& trial) {
    auto const tokens = torch::TensorOptions().dtype(torch::kInt64).device(trial.device());
    return torch::randint(kVocabulary, {trial.batch_size(), kTokens}, tokens);
  };
  classifier.classes = kClasses;
  return prepare_classification_step(std::move(classifier), recipe);
}

}  // namespace

ModelFactory small_transformer() {
  return {kName, "two encoder layers of width 128 over 64 tokens, 0.5 M parameters, 10 classes", std::nullopt,
          make_small_transformer};
}

}  // namespace maxbatch::models
