// Our RetinaNet against torchvision's, where torchvision is installed; and its loss against one that is written out.
#include "models/detection/focal_loss.hpp"
#include "support/detector_results.hpp"
#include "support/python_results.hpp"
#include <maxbatch/models/retinanet.hpp>
#include <maxbatch/search/errors.hpp>

#include <torch/torch.h>

#include <gtest/gtest.h>

#include <memory>
#include <string>

namespace maxbatch::test {
namespace {

using models::NormKind;
using models::RetinaNet;
using models::RetinaNetOptions;

#ifndef MAXBATCH_PYTHON
#define MAXBATCH_PYTHON ""
#define MAXBATCH_RETINANET_REFERENCE ""
#endif

class AgainstTorchvisionRetinaNet : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    python().reset(new PythonResults(MAXBATCH_PYTHON, MAXBATCH_RETINANET_REFERENCE, "torchvision"));
  }
  static void TearDownTestSuite() { python().reset(); }
  void SetUp() override {
    torch::set_num_threads(1);  // as retinanet_reference.py
    if (!python()->failure().empty()) { FAIL() << python()->failure(); }
    if (!python()->why_not().empty()) { GTEST_SKIP() << python()->why_not(); }
  }
  static std::unique_ptr<PythonResults>& python() {
    static std::unique_ptr<PythonResults> results;
    return results;
  }
};

RetinaNetOptions small_options() {
  RetinaNetOptions options;
  options.classes = 7;
  options.depths = {1, 1, 1, 1};
  options.shorter_side = 96;
  options.longer_side = 160;
  return options;
}

void expect_same(RetinaNet& model, c10::impl::GenericDict const& file, double detection_bound, double loss_bound) {
  model.eval();
  expect_same_detections(model.detect(tensors_at(file, "images")), file, detection_bound);
  model.train();
  auto const losses = model.losses(tensors_at(file, "images"), targets_at(file));
  auto const truth = named_tensors_at(file.at("trained").toGenericDict(), "losses");
  EXPECT_LT(error_of(losses.classification, truth.at("classification")), loss_bound);
  EXPECT_LT(error_of(losses.box_regression, truth.at("bbox_regression")), loss_bound);
  losses.total().backward();
  expect_same_gradients(model, file, loss_bound);
}

TEST_F(AgainstTorchvisionRetinaNet, GivesTheSameNumbersInDouble) {
  for (auto const* const name : {"frozen", "trained_norms"}) {
    SCOPED_TRACE(name);
    auto options = small_options();
    if (std::string(name) == "trained_norms") {
      options.norm = NormKind::batch;
      options.trained_parts = 5;
    }
    RetinaNet model(options);
    model.load_weights(python()->weights_of(name));
    model.to(at::kDouble);
    expect_same(model, python()->results_of(name), 1e-10, 1e-10);
  }
}

TEST_F(AgainstTorchvisionRetinaNet, WithResNet50GivesTheSameNumbers) {
  auto options = small_options();
  options.depths = {3, 4, 6, 3};
  RetinaNet model(options);
  model.load_weights(python()->weights_of("resnet50"));
  expect_same(model, python()->results_of("resnet50"), 1e-4, 1e-3);  // in float
}

TEST(RetinaNet, TrainsOnImagesWithoutObjects) {
  torch::manual_seed(1);
  auto options = small_options();
  options.width = 8;
  RetinaNet model(options);
  model.train();
  auto const losses = model.losses({at::rand({3, 80, 100})}, {{at::zeros({0, 4}), at::zeros({0}, at::kLong)}});
  EXPECT_EQ(losses.box_regression.item<double>(), 0);
  EXPECT_GT(losses.classification.item<double>(), 0);
  EXPECT_THROW(model.detect({at::rand({3, 80, 100})}), InvalidArgument);
}

TEST(RetinaNet, HasAsManyParametersAsItSays) {
  std::int64_t count = 0;
  for (auto const& parameter : RetinaNet(small_options()).parameters()) { count += parameter.numel(); }
  EXPECT_EQ(count, models::parameter_count(small_options()));
  EXPECT_EQ(models::parameter_count(RetinaNetOptions{}), 34'014'999);  // as torchvision says of COCO_V1
}

/// torchvision's sigmoid_focal_loss, written out.
at::Tensor written_out(at::Tensor const& logits, at::Tensor const& labels) {
  auto const targets =
      at::one_hot(labels.clamp_min(0), logits.size(2)).to(logits.scalar_type()) * (labels >= 0).unsqueeze(-1);
  auto const p = logits.sigmoid();
  auto const p_t = p * targets + (1 - p) * (1 - targets);
  auto const cross_entropy = at::binary_cross_entropy_with_logits(logits, targets, {}, {}, at::Reduction::None);
  auto const alpha = 0.25 * targets + 0.75 * (1 - targets);
  return (alpha * cross_entropy * (1 - p_t).square() * (labels >= -1).unsqueeze(-1)).sum({1, 2});
}

TEST(FocalLoss, IsWhatItSays) {
  torch::manual_seed(2);
  for (auto const type : {at::kDouble, at::kFloat}) {
    auto const logits = (at::randn({3, 5000, 11}, type) * 8).requires_grad_(true);
    auto const labels = at::randint(-2, 11, {3, 5000}, at::kLong);
    auto const weights = at::rand({3}, type);
    auto const ours = models::sigmoid_focal_loss(logits, labels);
    auto const [of_ours] = std::tuple(torch::autograd::grad({(ours * weights).sum()}, {logits})[0]);
    auto const truth = written_out(logits, labels);
    auto const of_truth = torch::autograd::grad({(truth * weights).sum()}, {logits})[0];
    auto const bound = type == at::kDouble ? 1e-12 : 1e-5;
    EXPECT_LT(error_of(ours, truth), bound);
    EXPECT_LT(error_of(of_ours, of_truth), bound);
  }
}

TEST(FocalLoss, StaysFiniteForAnyLogit) {
  auto const logits = at::tensor({-1e4F, -200.0F, 0.0F, 200.0F, 1e4F}).view({1, 1, 5}).requires_grad_(true);
  for (auto const label : {-1, 0, 4}) {
    auto const loss = models::sigmoid_focal_loss(logits, at::full({1, 1}, label, at::kLong));
    auto const gradient = torch::autograd::grad({loss.sum()}, {logits})[0];
    EXPECT_TRUE(loss.isfinite().all().item<bool>());
    EXPECT_TRUE(gradient.isfinite().all().item<bool>());
  }
}

}  // namespace
}  // namespace maxbatch::test
