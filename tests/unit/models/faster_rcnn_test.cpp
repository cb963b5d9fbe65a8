// Our Faster R-CNN against torchvision's, where torchvision is installed; and what needs no other side.
#include "models/detection/sampler.hpp"
#include "support/detector_results.hpp"
#include "support/python_results.hpp"
#include <maxbatch/models/faster_rcnn.hpp>
#include <maxbatch/models/registry.hpp>
#include <maxbatch/search/errors.hpp>

#include <torch/torch.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

namespace maxbatch::test {
namespace {

using models::DetectionTarget;
using models::FasterRcnn;
using models::FasterRcnnOptions;
using models::NormKind;
using testing::HasSubstr;

#ifndef MAXBATCH_PYTHON
#define MAXBATCH_PYTHON ""
#define MAXBATCH_FASTER_RCNN_REFERENCE ""
#endif

class AgainstTorchvisionFasterRcnn : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    python().reset(new PythonResults(MAXBATCH_PYTHON, MAXBATCH_FASTER_RCNN_REFERENCE, "torchvision"));
  }
  static void TearDownTestSuite() { python().reset(); }
  void SetUp() override {
    torch::set_num_threads(1);  // as faster_rcnn_reference.py
    if (!python()->failure().empty()) { FAIL() << python()->failure(); }
    if (!python()->why_not().empty()) { GTEST_SKIP() << python()->why_not(); }
  }
  static std::unique_ptr<PythonResults>& python() {
    static std::unique_ptr<PythonResults> results;
    return results;
  }
};

FasterRcnnOptions small_options() {
  FasterRcnnOptions options;
  options.classes = 7;
  options.depths = {1, 1, 1, 1};
  options.shorter_side = 96;
  options.longer_side = 160;
  options.proposals_after_nms[0] = 100;
  return options;
}

FasterRcnnOptions with_all_sampled(FasterRcnnOptions options) {
  options.anchors_sampled = 20'000;
  options.boxes_sampled = 4000;
  return options;
}

void expect_same_losses(FasterRcnn& model, c10::impl::GenericDict const& file, double bound) {
  model.train();
  auto const losses = model.losses(tensors_at(file, "images"), targets_at(file));
  auto const truth = file.at("trained").toGenericDict();
  auto const true_losses = named_tensors_at(truth, "losses");
  EXPECT_LT(error_of(losses.classifier, true_losses.at("loss_classifier")), bound);
  EXPECT_LT(error_of(losses.box_regression, true_losses.at("loss_box_reg")), bound);
  EXPECT_LT(error_of(losses.objectness, true_losses.at("loss_objectness")), bound);
  EXPECT_LT(error_of(losses.proposal_regression, true_losses.at("loss_rpn_box_reg")), bound);

  losses.total().backward();
  expect_same_gradients(model, file, bound);
}

TEST_F(AgainstTorchvisionFasterRcnn, GivesTheSameNumbersInDouble) {
  for (auto const* const name : {"frozen", "trained_norms"}) {
    SCOPED_TRACE(name);
    auto options = with_all_sampled(small_options());
    if (std::string(name) == "trained_norms") {
      options.norm = NormKind::batch;
      options.trained_parts = 5;
    }
    FasterRcnn model(options);
    model.load_weights(python()->weights_of(name));
    model.to(at::kDouble);
    auto const file = python()->results_of(name);
    model.eval();
    expect_same_detections(model.detect(tensors_at(file, "images")), file, 1e-10);
    expect_same_losses(model, file, 1e-10);
  }
}

TEST_F(AgainstTorchvisionFasterRcnn, GivesTheSameLossesForTheSameSamples) {
  auto options = small_options();
  options.anchors_sampled = 64;
  options.boxes_sampled = 32;
  FasterRcnn model(options);
  model.load_weights(python()->weights_of("sampled"));
  model.to(at::kDouble);
  torch::manual_seed(11);
  expect_same_losses(model, python()->results_of("sampled"), 1e-10);
}

TEST_F(AgainstTorchvisionFasterRcnn, WithResNet50GivesTheSameNumbers) {
  auto options = with_all_sampled(small_options());
  options.depths = {3, 4, 6, 3};
  FasterRcnn model(options);
  model.load_weights(python()->weights_of("resnet50"));
  auto const file = python()->results_of("resnet50");
  // In float: fifty layers of roundings on either side.
  model.eval();
  expect_same_detections(model.detect(tensors_at(file, "images")), file, 1e-4);
  expect_same_losses(model, file, 1e-3);
}

FasterRcnnOptions tiny_options() {
  auto options = small_options();
  options.width = 8;
  return options;
}

TEST(FasterRcnn, TrainsOnImagesWithoutObjects) {
  torch::manual_seed(1);
  FasterRcnn model(tiny_options());
  model.train();
  auto const none = DetectionTarget{at::zeros({0, 4}), at::zeros({0}, at::kLong)};
  auto const losses = model.losses({at::rand({3, 80, 100}), at::rand({3, 100, 80})}, {none, none});
  EXPECT_EQ(losses.box_regression.item<double>(), 0);
  EXPECT_EQ(losses.proposal_regression.item<double>(), 0);
  EXPECT_GT(losses.classifier.item<double>(), 0);
  EXPECT_TRUE(std::isfinite(losses.total().item<double>()));
}

TEST(FasterRcnn, HasAsManyParametersAsItSays) {
  for (auto const norm : {NormKind::batch, NormKind::frozen}) {
    auto options = tiny_options();
    options.norm = norm;
    std::int64_t count = 0;
    for (auto const& parameter : FasterRcnn(options).parameters()) { count += parameter.numel(); }
    EXPECT_EQ(count, models::parameter_count(options));
  }
  EXPECT_EQ(models::parameter_count(FasterRcnnOptions{}), 41'755'286);  // as torchvision says of COCO_V1
}

TEST(FasterRcnn, LearnsWhereABoxIs) {
  torch::manual_seed(2);
  FasterRcnn model(tiny_options());
  model.train();
  auto const image = at::zeros({3, 96, 128});
  image.narrow(1, 20, 40).narrow(2, 30, 50).fill_(1);
  std::vector<DetectionTarget> const targets = {
      {at::tensor({30.0F, 20.0F, 80.0F, 60.0F}).view({1, 4}), at::full({1}, 3, at::kLong)}};
  torch::optim::Adam optimizer(model.parameters(), 1e-3);
  for (int step = 0; step < 60; ++step) {
    optimizer.zero_grad();
    model.losses({image}, targets).total().backward();
    optimizer.step();
  }
  model.eval();
  auto const found = model.detect({image}).front();
  ASSERT_GT(found.boxes.size(0), 0);
  EXPECT_EQ(found.labels[0].item<std::int64_t>(), 3);
  EXPECT_LT((found.boxes[0] - targets[0].boxes[0]).abs().max().item<double>(), 8) << found.boxes;
}

template <typename Call>
std::string complaint_of(Call const& call) {
  try {
    call();
  } catch (InvalidArgument const& error) { return error.what(); }
  return "(nothing was thrown)";
}

TEST(FasterRcnn, SaysWhatIsWrongWithImagesAndTargets) {
  FasterRcnn model(tiny_options());
  model.train();
  auto const image = at::rand({3, 80, 100});
  auto const complaint = [&](std::vector<std::vector<float>> const& boxes, std::vector<std::int64_t> const& labels) {
    auto const rows = at::empty({static_cast<std::int64_t>(boxes.size()), 4});
    for (std::size_t i = 0; i < boxes.size(); ++i) { rows[static_cast<std::int64_t>(i)].copy_(at::tensor(boxes[i])); }
    return complaint_of([&] { model.losses({image}, {{rows, at::tensor(labels, at::kLong)}}); });
  };
  EXPECT_THAT(complaint({{1, 1, 5, 5}, {4, 4, 4, 9}}, {1, 2}), HasSubstr("image 0 has box 1 (4, 4, 4, 9): boxes are"));
  EXPECT_THAT(complaint({{1, 1, 5, 5}}, {7}), HasSubstr("has labels from 7 to 7: the model knows 1 to 6"));
  EXPECT_THAT(complaint({{1, 1, 5, 5}}, {0}), HasSubstr("has labels from 0 to 0"));
  EXPECT_THAT(complaint({{1, 1, 5, 5}}, {1, 2}), HasSubstr("has labels [2] of Long for boxes [1, 4]"));
  EXPECT_THAT(complaint_of([&] { model.losses({image}, {}); }), HasSubstr("was given 0 for 1 images"));
  EXPECT_THAT(complaint_of([&] {
                model.losses({at::rand({1, 3, 80, 100})}, {{}});
              }),
              HasSubstr("image 0 is [1, 3, 80, 100]"));
  EXPECT_THAT(complaint_of([&] { model.losses({}, {}); }), HasSubstr("was given none"));
  EXPECT_THAT(complaint_of([&] { model.detect({image}); }), HasSubstr("call eval() first"));
  model.eval();
  EXPECT_THAT(complaint_of([&] { model.losses({image}, {{}}); }), HasSubstr("call train() first"));
}

TEST(FasterRcnn, RefusesOptionsThatMakeNoModel) {
  auto const complaint = [](auto const& change) {
    auto options = tiny_options();
    change(options);
    return complaint_of([&] { FasterRcnn const model(options); });
  };
  EXPECT_THAT(complaint([](FasterRcnnOptions& o) { o.classes = 1; }), HasSubstr("1 classes"));
  EXPECT_THAT(complaint([](FasterRcnnOptions& o) { o.longer_side = 10; }), HasSubstr("at most 10 on the longer side"));
  EXPECT_THAT(complaint([](FasterRcnnOptions& o) { o.boxes_sampled = 0; }), HasSubstr("boxes_sampled 0"));
  EXPECT_THAT(complaint([](FasterRcnnOptions& o) { o.positive_boxes = 2; }), HasSubstr("positive_boxes 2"));
}

/// Counts nothing; remembers the phases.
class PhaseRecorder : public TrialWindow {
 public:
  Phase enter_phase(Phase phase) noexcept override {
    entered.push_back(phase);
    return Phase::other;
  }
  TrialEvidence evidence() const override { return {}; }
  void disarm() noexcept override {}
  Bytes still_allocated() const noexcept override { return {}; }

  std::vector<Phase> entered;
};

TEST(DetectorFactories, TrainAndDetectInTheirPhases) {
  torch::set_num_threads(1);
  auto const registry = models::ModelRegistry::built_in();
  for (auto const* const name : {"faster_rcnn", "retinanet_from_scratch"}) {
    SCOPED_TRACE(name);
    Recipe recipe;
    recipe.optimizer = OptimizerKind::sgd;
    recipe.image_size = ImageSize{64, 96};
    auto const& model = registry.at(name);
    EXPECT_EQ(model.image_size, (ImageSize{800, 1333}));
    auto const prepared = model.make(torch::kCPU, recipe);
    PhaseRecorder window;
    Trial::Setting setting;
    setting.batch_size = 2;
    Trial training(setting, window);
    prepared.step(training);
    setting.mode = StepMode::evaluate;
    Trial evaluation(setting, window);
    prepared.step(evaluation);
    EXPECT_THAT(window.entered, testing::ElementsAre(Phase::setup, Phase::other, Phase::forward, Phase::other,
                                                     Phase::backward, Phase::other, Phase::optimizer, Phase::other,
                                                     Phase::setup, Phase::other, Phase::evaluation, Phase::other));
  }
}

/// Backward passes throw where a gradient is no number.
class RefuseNanGuard {
 public:
  RefuseNanGuard() { torch::autograd::AnomalyMode::set_enabled(true, /*check_nan=*/true); }
  ~RefuseNanGuard() { torch::autograd::AnomalyMode::set_enabled(false); }
  RefuseNanGuard(RefuseNanGuard const&) = delete;
  RefuseNanGuard& operator=(RefuseNanGuard const&) = delete;
};

TEST(DetectorFactories, TrainStepAfterStepInNumbers) {
  torch::set_num_threads(1);
  RefuseNanGuard const refuse_nan;
  auto const registry = models::ModelRegistry::built_in();
  for (auto const* const name : {"faster_rcnn", "retinanet"}) {
    SCOPED_TRACE(name);
    torch::manual_seed(4);
    Recipe recipe;
    recipe.optimizer = OptimizerKind::sgd_fused;
    recipe.image_size = ImageSize{64, 96};
    auto const prepared = registry.at(name).make(torch::kCPU, recipe);
    PhaseRecorder window;
    Trial::Setting setting;
    setting.batch_size = 1;
    Trial trial(setting, window);
    for (int step = 0; step < 4; ++step) { ASSERT_NO_THROW(prepared.step(trial)) << step; }
  }
}

TEST(SampleBalanced, TakesAsManyOfEachAsItMay) {
  torch::manual_seed(3);
  // 3 positives and many negatives; many positives and 5 negatives; too few of both.
  auto labels = at::zeros({3, 40}, at::kLong);
  labels[0].narrow(0, 10, 3).fill_(2);
  labels[1].fill_(1).narrow(0, 0, 5).fill_(0);
  labels[2].fill_(-1).narrow(0, 7, 2).fill_(1);
  labels[2][0] = 0;
  auto const sample = models::sample_balanced(labels, 16, 0.5);
  ASSERT_EQ(sample.index.sizes(), (std::vector<std::int64_t>{3, 16}));
  EXPECT_EQ(sample.most_positives, 8);
  std::vector<std::vector<std::int64_t>> const expected = {{3, 13}, {8, 5}, {2, 1}};
  for (std::int64_t image = 0; image < 3; ++image) {
    auto const used = sample.index[image].masked_select(sample.is_used[image]);
    EXPECT_EQ(std::get<0>(at::_unique(used)).numel(), used.numel()) << "drawn twice";
    auto const found = labels[image].index_select(0, used);
    auto const& [positives, negatives] =
        std::tie(expected[static_cast<std::size_t>(image)][0], expected[static_cast<std::size_t>(image)][1]);
    EXPECT_EQ((found > 0).sum().item<std::int64_t>(), positives);
    EXPECT_EQ((found == 0).sum().item<std::int64_t>(), negatives);
    EXPECT_TRUE((found.narrow(0, 0, positives) > 0).all().item<bool>());  // first
    EXPECT_EQ(sample.is_positive[image].sum().item<std::int64_t>(), positives);
  }
}

TEST(SampleBalanced, DrawsEachCandidateAsOften) {
  torch::manual_seed(4);
  auto const labels = at::cat({at::ones({10}, at::kLong), at::zeros({30}, at::kLong)}).expand({4000, 40});
  auto const sample = models::sample_balanced(labels, 20, 0.25);
  auto const often = at::bincount(sample.index.flatten(), {}, 40).to(at::kDouble) / 4000;
  // 5 of 10 and 15 of 30: a half each, with a standard deviation of 0.008.
  EXPECT_LT((often - 0.5).abs().max().item<double>(), 0.04) << often;
}

}  // namespace
}  // namespace maxbatch::test
