// Our residual networks against torchvision's, where torchvision is installed; and what needs no other side.
#include "support/python_results.hpp"
#include <maxbatch/models/resnet.hpp>
#include <maxbatch/search/errors.hpp>

#include <torch/torch.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <set>
#include <string>

namespace maxbatch::test {
namespace {

using models::NormKind;
using models::ResNet;
using models::ResNetOptions;
using testing::HasSubstr;

#ifndef MAXBATCH_PYTHON
#define MAXBATCH_PYTHON ""
#define MAXBATCH_RESNET_REFERENCE ""
#endif

class AgainstTorchvisionResNet : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    python().reset(new PythonResults(MAXBATCH_PYTHON, MAXBATCH_RESNET_REFERENCE, "torchvision"));
  }
  static void TearDownTestSuite() { python().reset(); }
  void SetUp() override {
    torch::set_num_threads(1);  // as resnet_reference.py
    if (!python()->failure().empty()) { FAIL() << python()->failure(); }
    if (!python()->why_not().empty()) { GTEST_SKIP() << python()->why_not(); }
  }
  static std::unique_ptr<PythonResults>& python() {
    static std::unique_ptr<PythonResults> results;
    return results;
  }
};

/// Logits in evaluation, then loss, gradients and buffers of one training step.
void expect_equal(ResNet& model, c10::impl::GenericDict const& file, double bound) {
  auto const images = tensor_at(file, "images");
  auto const truth = file.at("truth").toGenericDict();
  model.eval();
  {
    at::NoGradGuard const no_gradients;
    EXPECT_LT(error_of(model.forward(images), tensor_at(truth, "evaluated")), bound);
  }
  model.train();
  auto const loss = torch::nn::functional::cross_entropy(model.forward(images), tensor_at(file, "labels"));
  EXPECT_LT(error_of(loss, tensor_at(truth, "loss")), bound);
  loss.backward();

  auto const gradients = named_tensors_at(truth, "gradients");
  std::size_t compared = 0;
  for (auto const& item : model.named_parameters()) {
    auto const theirs = gradients.find(item.key());
    ASSERT_EQ(item.value().grad().defined(), theirs != gradients.end()) << item.key();
    if (theirs == gradients.end()) { continue; }
    EXPECT_LT(error_of(item.value().grad(), theirs->second), bound) << item.key();
    ++compared;
  }
  EXPECT_EQ(compared, gradients.size());

  auto const buffers = named_tensors_at(truth, "buffers");
  EXPECT_EQ(model.named_buffers().size(), buffers.size());
  for (auto const& item : model.named_buffers()) {
    ASSERT_EQ(buffers.count(item.key()), 1U) << item.key();
    EXPECT_LT(error_of(item.value(), buffers.at(item.key())), bound) << item.key();
  }
}

ResNetOptions small_options() {
  ResNetOptions options;
  options.depths = {1, 2, 1, 1};
  options.classes = 10;
  return options;
}

TEST_F(AgainstTorchvisionResNet, SmallModelsGiveTheSameNumbersInDouble) {
  struct Case {
    std::string name;
    NormKind norm;
    std::int64_t trained_parts;
  };
  for (auto const& [name, norm, trained_parts] :
       {Case{"batch_norm", NormKind::batch, 5}, Case{"frozen_norm", NormKind::frozen, 3},
        Case{"frozen_stem_norm", NormKind::batch, 4}}) {
    SCOPED_TRACE(name);
    auto options = small_options();
    options.norm = norm;
    ResNet model(options);
    model.to(at::kDouble);
    model.load_weights(python()->weights_of(name));
    model.train_last(trained_parts);
    expect_equal(model, python()->results_of(name), 1e-11);  // sums of some thousand products in another order
  }
}

TEST_F(AgainstTorchvisionResNet, ResNet50GivesTheSameNumbers) {
  ResNetOptions options;
  options.classes = 10;
  ResNet model(options);
  model.load_weights(python()->weights_of("resnet50"));
  // The same kernels on the same numbers; only a sum with the shortcut may be taken another way round.
  expect_equal(model, python()->results_of("resnet50"), 1e-5);
}

TEST(ResNet, HasAsManyParametersAsItSays) {
  for (auto const norm : {NormKind::batch, NormKind::frozen}) {
    for (auto const classes : {std::int64_t{0}, std::int64_t{7}}) {
      auto options = small_options();
      options.width = 8;
      options.norm = norm;
      options.classes = classes;
      std::int64_t count = 0;
      for (auto const& parameter : ResNet(options).parameters()) { count += parameter.numel(); }
      EXPECT_EQ(count, models::parameter_count(options));
    }
  }
  EXPECT_EQ(models::parameter_count(ResNetOptions{}), 25'557'032);  // torchvision's resnet50
}

TEST(ResNet, GivesItsStagesFinestFirst) {
  auto options = small_options();
  options.width = 8;
  options.classes = 0;
  ResNet model(options);
  auto const maps = model.feature_maps(torch::randn({2, 3, 64, 96}));
  ASSERT_EQ(maps.size(), 4U);
  EXPECT_EQ(maps[0].sizes(), (std::vector<std::int64_t>{2, 32, 16, 24}));
  EXPECT_EQ(maps[3].sizes(), (std::vector<std::int64_t>{2, 256, 2, 3}));
  EXPECT_THROW(model.forward(torch::randn({2, 3, 64, 96})), InvalidArgument);
}

TEST(ResNet, TrainsItsLastParts) {
  auto options = small_options();
  options.width = 8;
  ResNet model(options);
  auto const trained = [&](std::int64_t parts) {
    model.train_last(parts);
    std::set<std::string> names;
    for (auto const& item : model.named_parameters()) {
      if (item.value().requires_grad()) { names.insert(item.key().substr(0, item.key().find('.'))); }
    }
    return names;
  };
  using Names = std::set<std::string>;
  EXPECT_EQ(trained(0), (Names{"fc"}));
  EXPECT_EQ(trained(3), (Names{"fc", "layer2", "layer3", "layer4"}));
  EXPECT_EQ(trained(4), (Names{"fc", "layer1", "layer2", "layer3", "layer4"}));
  EXPECT_EQ(trained(5), (Names{"bn1", "conv1", "fc", "layer1", "layer2", "layer3", "layer4"}));
  EXPECT_THROW(trained(6), InvalidArgument);
}

TEST(ResNet, GivesTheSameGradientsWithCheckpoints) {
  torch::set_num_threads(1);
  for (auto const norm : {NormKind::batch, NormKind::frozen}) {
    auto options = small_options();
    options.width = 8;
    options.norm = norm;
    std::vector<at::Tensor> gradients[2];
    auto const images = torch::randn({2, 3, 64, 64});
    for (auto const checkpointed : {false, true}) {
      torch::manual_seed(1);
      options.checkpoint = checkpointed;
      ResNet model(options);
      model.train();
      model.forward(images).square().sum().backward();
      for (auto const& parameter : model.parameters()) { gradients[checkpointed ? 1 : 0].push_back(parameter.grad()); }
    }
    ASSERT_EQ(gradients[0].size(), gradients[1].size());
    for (std::size_t i = 0; i < gradients[0].size(); ++i) {
      EXPECT_TRUE(at::equal(gradients[0][i], gradients[1][i])) << i;
    }
  }
}

TEST(ResNet, RefusesOptionsAndImagesThatMakeNoSense) {
  auto const complaint = [](auto const& change) {
    auto options = small_options();
    change(options);
    try {
      ResNet const model(options);
    } catch (InvalidArgument const& error) { return std::string(error.what()); }
    return std::string("(nothing was thrown)");
  };
  EXPECT_THAT(complaint([](ResNetOptions& options) { options.depths = {3, 4}; }), HasSubstr("has 2 stages"));
  EXPECT_THAT(complaint([](ResNetOptions& options) { options.depths[1] = 0; }), HasSubstr("a stage of 0 blocks"));
  EXPECT_THAT(complaint([](ResNetOptions& options) { options.width = 0; }), HasSubstr("a width of 0 channels"));
  EXPECT_THAT(complaint([](ResNetOptions& options) { options.classes = -1; }), HasSubstr("-1 classes"));
  auto options = small_options();
  options.width = 8;
  ResNet model(options);
  EXPECT_THROW(model.forward(torch::randn({2, 1, 64, 64})), InvalidArgument);
  EXPECT_THROW(model.forward(torch::randn({3, 64, 64})), InvalidArgument);
}

}  // namespace
}  // namespace maxbatch::test
