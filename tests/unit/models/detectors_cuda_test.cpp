// Detectors on a CUDA device: kernels against the CPU's code, and what waits for the device. The cases of OnACard need a
// card that computes; those of OnAnyCard run on a dry one as well.
#include "models/detection/focal_loss.hpp"
#include "models/detection/matching.hpp"
#include "models/detection/roi_align.hpp"
#include "models/detection/suppression.hpp"
#include "support/frozen_norm_cases.hpp"
#include <maxbatch/models/detection_operators.hpp>
#include <maxbatch/models/faster_rcnn.hpp>
#include <maxbatch/models/registry.hpp>
#include <maxbatch/models/retinanet.hpp>

#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAFunctions.h>
#include <torch/torch.h>

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

namespace maxbatch::test {
namespace {

using models::DetectionTarget;
using models::FasterRcnn;
using models::FasterRcnnOptions;

class OnAnyCard : public testing::Test {
 protected:
  void SetUp() override {
    if (!torch::cuda::is_available()) { GTEST_SKIP() << "there is no CUDA device"; }
    at::globalContext().setAllowTF32CuBLAS(false);
    at::globalContext().setAllowTF32CuDNN(false);
    torch::manual_seed(1);
  }
};
class OnACard : public OnAnyCard {
 protected:
  void SetUp() override {
    OnAnyCard::SetUp();
    if (!IsSkipped() && at::ones({1}, at::kCUDA).item<float>() != 1) { GTEST_SKIP() << "this card computes nothing"; }
  }
};

/// Boxes of one kind of trouble.
at::Tensor draw_boxes(int kind, at::IntArrayRef shape, at::ScalarType type) {
  std::vector<std::int64_t> half(shape.begin(), shape.end());
  half.back() = 2;
  auto corner = at::rand(half, type) * 100;
  auto side = at::rand(half, type) * 60 + 1;
  switch (kind) {
    case 1: corner = corner / 20; break;
    case 2:
      corner = (corner / 10).round();
      side = (side / 12).round();
      break;
    case 3: side = side * (at::rand(half, type) - 0.2).sign(); break;
    case 4: corner = corner * 1e30; break;
    default: break;
  }
  auto boxes = at::cat({corner, corner + side}, -1);
  if (kind == 5) {
    boxes.masked_fill_(at::rand(shape) < 0.1, std::numeric_limits<double>::quiet_NaN());
    boxes.masked_fill_(at::rand(shape) < 0.05, std::numeric_limits<double>::infinity());
  }
  return boxes;
}
constexpr int kKinds = 6;

TEST_F(OnACard, SuppressionKeepsTheBoxesThatTheCpuKeeps) {
  for (int round = 0; round < 400; ++round) {
    auto const type = round % 2 == 0 ? at::kFloat : at::kDouble;
    std::int64_t const rows = 1 + round % 3;
    std::int64_t const count = round % 20 == 0 ? 3000 : 1 + round * 7 % 900;
    std::int64_t const segments = 1 + round % 7;
    auto const boxes = draw_boxes(round % kKinds, {rows, count, 4}, type);
    auto scores = at::rand({rows, count});
    if (round % 4 == 0) { scores = scores.masked_fill(scores < 0.1, std::numeric_limits<float>::quiet_NaN()); }
    auto const order = scores.argsort(/*stable=*/true, 1, true);
    auto const of_segment = at::randint(-1, segments, {rows, count}, at::kInt);
    for (double const threshold : {0.5, 0.7, 1.0 / 3}) {
      auto const expected = models::suppress(boxes, order, of_segment, segments, threshold);
      auto const found = models::suppress(boxes.cuda(), order.cuda(), of_segment.cuda(), segments, threshold);
      ASSERT_TRUE(at::equal(found.cpu(), expected)) << round << " " << threshold;
    }
  }
}

TEST_F(OnACard, NmsOfManyBoxesKeepsThoseThatTheCpuKeeps) {
  for (int kind = 0; kind < kKinds; ++kind) {
    auto const boxes = draw_boxes(kind, {70'000, 4}, at::kFloat);
    auto const scores = at::rand({70'000});
    if (kind != 4 && kind != 5) {  // those hardly overlap, which takes the CPU long
      EXPECT_TRUE(at::equal(models::nms(boxes.cuda(), scores.cuda(), 0.5).cpu(), models::nms(boxes, scores, 0.5)));
    }
    auto const classes = at::randint(0, 40, {70'000}, at::kLong);
    EXPECT_TRUE(at::equal(models::batched_nms(boxes.cuda(), scores.cuda(), classes.cuda(), 0.5).cpu(),
                          models::batched_nms(boxes, scores, classes, 0.5)))
        << kind;
  }
  EXPECT_EQ(models::nms(at::zeros({0, 4}, at::kCUDA), at::zeros({0}, at::kCUDA), 0.5).size(0), 0);
}

TEST_F(OnACard, MatchingMatchesAsTheCpuDoes) {
  for (int round = 0; round < 200; ++round) {
    auto const type = round % 2 == 0 ? at::kFloat : at::kDouble;
    models::MatchThresholds thresholds;
    thresholds.low = 0.3;
    thresholds.high = round % 3 == 0 ? 0.3 : 0.7;
    thresholds.low_quality_matches = round % 4 != 0;
    std::vector<at::Tensor> truth;
    std::vector<at::Tensor> truth_on_card;
    for (auto const count : {round % 200, 0, 1}) {
      truth.push_back(draw_boxes(round % 3, {count, 4}, type));
      truth_on_card.push_back(truth.back().cuda());
    }
    auto const boxes =
        round % 5 == 0 ? draw_boxes(round % 4, {5000, 4}, type) : draw_boxes(round % 4, {3, 1000, 4}, type);
    auto const expected = models::match_boxes(models::TruthBoxes::of(truth, at::kCPU, type), boxes, thresholds);
    auto const found = models::match_boxes(models::TruthBoxes::of(truth_on_card, at::Device(at::kCUDA, 0), type),
                                           boxes.cuda(), thresholds);
    ASSERT_TRUE(at::equal(found.cpu(), expected)) << round;
  }
}

TEST_F(OnACard, RoiAlignPoolsAsTheCpuDoes) {
  for (int round = 0; round < 300; ++round) {
    auto const type = round % 4 == 0 ? at::kFloat : at::kDouble;
    auto const bound = type == at::kFloat ? 1e-5 : 1e-12;
    std::vector<at::Tensor> maps;
    std::vector<at::Tensor> maps_on_card;
    std::vector<double> scales;
    std::int64_t const levels = round % 3 == 0 ? 1 : 4;
    for (std::int64_t level = 0; level < levels; ++level) {
      maps.push_back(at::randn({2, 70, 1 + (160 >> level), 1 + (96 >> level)}, type).requires_grad_(true));
      maps_on_card.push_back(maps.back().detach().cuda().requires_grad_(level != 2));
      scales.push_back(0.25 / static_cast<double>(1 << level));
    }
    auto const count = round % 50 == 0 ? 0 : 1 + round % 40;
    auto const boxes = draw_boxes(round % kKinds, {count, 4}, type) * (1 + round % 9);
    auto const rois = at::cat({at::randint(round % 7 == 0 ? -1 : 0, 2, {count, 1}).to(type), boxes}, 1);
    models::RoiAlignOptions const options{1 + round % 7, 7, round % 4, round % 2 == 0};
    auto const expected = models::pyramid_roi_align(maps, rois, scales, options);
    auto const found = models::pyramid_roi_align(maps_on_card, rois.cuda(), scales, options);
    ASSERT_TRUE(at::allclose(found.cpu(), expected, bound, bound)) << round;
    auto const weights = at::randn(expected.sizes(), type);
    (expected * weights).sum().backward();
    (found * weights.cuda()).sum().backward();
    for (std::size_t level = 0; level < maps.size(); ++level) {
      if (level == 2) {
        EXPECT_FALSE(maps_on_card[level].grad().defined());
        continue;
      }
      ASSERT_TRUE(at::allclose(maps_on_card[level].grad().cpu(), maps[level].grad(), 10 * bound, 10 * bound)) << round;
    }
  }
}

TEST_F(OnACard, FrozenNormIsWhatItSays) {
  for (auto const type : {at::kDouble, at::kFloat, at::kHalf, at::kBFloat16}) {
    for (auto const relu : {false, true}) {
      for (auto const adds : {false, true}) {
        SCOPED_TRACE(std::string(c10::toString(type)) + (relu ? ", relu" : "") + (adds ? ", adds" : ""));
        expect_frozen_norm_as_written_out(type, relu, adds, at::Device(at::kCUDA, 0));
      }
    }
  }
}

TEST_F(OnACard, FocalLossIsThatOfTheCpu) {
  for (auto const type : {at::kDouble, at::kFloat}) {
    auto const logits = (at::randn({3, 30'000, 11}, type) * 8).requires_grad_(true);
    auto const on_card = logits.detach().cuda().requires_grad_(true);
    auto const labels = at::randint(-2, 11, {3, 30'000}, at::kLong);
    auto const weights = at::rand({3}, type);
    auto const expected = models::sigmoid_focal_loss(logits, labels);
    auto const found = models::sigmoid_focal_loss(on_card, labels.cuda());
    auto const bound = type == at::kDouble ? 1e-12 : 1e-5;
    EXPECT_TRUE(at::allclose(found.cpu(), expected, bound, bound));
    (expected * weights).sum().backward();
    (found * weights.cuda()).sum().backward();
    EXPECT_TRUE(at::allclose(on_card.grad().cpu(), logits.grad(), 10 * bound, bound));
  }
}

FasterRcnnOptions small_options() {
  FasterRcnnOptions options;
  options.classes = 7;
  options.depths = {1, 1, 1, 1};
  options.width = 16;
  options.shorter_side = 96;
  options.longer_side = 160;
  options.anchors_sampled = 20'000;  // all: devices draw different samples
  options.boxes_sampled = 8000;
  return options;
}

std::vector<DetectionTarget> some_targets() {
  return {
      {at::tensor({10.0F, 12.0F, 50.0F, 70.0F, 30.0F, 5.0F, 90.0F, 60.0F}).view({2, 4}), at::tensor({3, 5}, at::kLong)},
      {at::zeros({0, 4}), at::zeros({0}, at::kLong)}};
}

TEST_F(OnACard, FasterRcnnGivesTheNumbersOfTheCpu) {
  FasterRcnn on_cpu(small_options());
  FasterRcnn on_card(small_options(), at::Device(at::kCUDA, 0));
  on_cpu.to(at::kDouble);
  on_card.to(at::kDouble);
  {
    at::NoGradGuard const no_gradients;
    for (auto& item : on_cpu.named_parameters()) {
      if (item.key().find("cls_") != std::string::npos) { item.value().normal_(0, 0.2); }
      on_card.named_parameters()[item.key()].copy_(item.value());
    }
  }
  std::vector<at::Tensor> const images = {at::rand({3, 90, 140}, at::kDouble), at::rand({3, 120, 80}, at::kDouble)};
  std::vector<at::Tensor> const images_on_card = {images[0].cuda(), images[1].cuda()};
  auto const expected = on_cpu.losses(images, some_targets());
  auto const found = on_card.losses(images_on_card, some_targets());
  auto const near = [](at::Tensor const& a, at::Tensor const& b) {
    EXPECT_NEAR(a.item<double>(), b.item<double>(), 1e-9 * std::abs(b.item<double>()));
  };
  near(found.classifier, expected.classifier);
  near(found.box_regression, expected.box_regression);
  near(found.objectness, expected.objectness);
  near(found.proposal_regression, expected.proposal_regression);
  expected.total().backward();
  found.total().backward();
  for (auto const& item : on_cpu.named_parameters()) {
    if (!item.value().grad().defined()) { continue; }
    EXPECT_TRUE(at::allclose(on_card.named_parameters()[item.key()].grad().cpu(), item.value().grad(), 1e-7, 1e-9))
        << item.key();
  }
  on_cpu.eval();
  on_card.eval();
  auto const expected_objects = on_cpu.detect(images);
  auto const objects = on_card.detect(images_on_card);
  for (std::size_t i = 0; i < objects.size(); ++i) {
    ASSERT_EQ(objects[i].boxes.sizes(), expected_objects[i].boxes.sizes());
    EXPECT_TRUE(at::equal(objects[i].labels.cpu(), expected_objects[i].labels));
    EXPECT_TRUE(at::allclose(objects[i].boxes.cpu(), expected_objects[i].boxes, 1e-7, 1e-7));
  }
}

/// Makes LibTorch refuse whatever would wait for the device.
class NoWaiting {
 public:
  NoWaiting() { c10::cuda::warning_state().set_sync_debug_mode(c10::cuda::SyncDebugMode::L_ERROR); }
  ~NoWaiting() { c10::cuda::warning_state().set_sync_debug_mode(c10::cuda::SyncDebugMode::L_DISABLED); }
  NoWaiting(NoWaiting const&) = delete;
  NoWaiting& operator=(NoWaiting const&) = delete;
};

/// Counts nothing.
class Window : public TrialWindow {
 public:
  Phase enter_phase(Phase phase) noexcept override {
    optimizer_steps += phase == Phase::optimizer ? 1 : 0;
    return Phase::other;
  }
  TrialEvidence evidence() const override { return {}; }
  void disarm() noexcept override {}
  Bytes still_allocated() const noexcept override { return {}; }

  int optimizer_steps = 0;
};

// A step whose gradients are no numbers with any scale throws.
TEST_F(OnACard, FactoriesTrainInFp16) {
  auto const registry = models::ModelRegistry::built_in();
  for (auto const* const name : {"faster_rcnn", "retinanet", "faster_rcnn_from_scratch"}) {
    SCOPED_TRACE(name);
    Recipe recipe;
    recipe.optimizer = OptimizerKind::sgd_fused;
    recipe.precision = Precision::fp16;
    auto const prepared = registry.at(name).make(at::Device(at::kCUDA, 0), recipe);
    Window window;
    Trial::Setting setting;
    setting.batch_size = 2;
    setting.device = at::Device(at::kCUDA, 0);
    Trial trial(setting, window);
    constexpr int kSteps = 20;
    for (int step = 0; step < kSteps; ++step) { ASSERT_NO_THROW(prepared.step(trial)) << step; }
    EXPECT_GE(window.optimizer_steps, kSteps);
    EXPECT_LT(window.optimizer_steps, 2 * kSteps) << "steps that were skipped";
  }
}

TEST_F(OnAnyCard, NothingInATrainingStepWaitsForTheDevice) {
  at::Device const device(at::kCUDA, 0);
  auto options = small_options();
  options.anchors_sampled = 256;
  options.boxes_sampled = 512;
  FasterRcnn model(options, device);
  torch::optim::SGD optimizer(model.parameters(), torch::optim::SGDOptions(1e-3).momentum(0.9));
  auto const image = at::rand({3, 90, 140}, device);
  NoWaiting const no_waiting;
  EXPECT_THROW(image.sum().item<float>(), c10::Error);  // it does refuse
  for (int step = 0; step < 2; ++step) {
    optimizer.zero_grad();
    model.losses({image, at::rand({3, 120, 80}, device)}, some_targets()).total().backward();
    optimizer.step();
  }
}

TEST_F(OnAnyCard, NothingInATrainingStepOfRetinaNetWaitsForTheDevice) {
  at::Device const device(at::kCUDA, 0);
  models::RetinaNetOptions options;
  options.depths = {1, 1, 1, 1};
  options.width = 16;
  options.shorter_side = 96;
  options.longer_side = 160;
  models::RetinaNet model(options, device);
  NoWaiting const no_waiting;
  model.losses({at::rand({3, 90, 140}, device), at::rand({3, 120, 80}, device)}, some_targets()).total().backward();
}

TEST_F(OnAnyCard, MemoryOfATrainingStepDoesNotDependOnItsObjects) {
  at::Device const device(at::kCUDA, 0);
  auto const peak_with = [&](std::int64_t objects) {
    auto options = small_options();
    options.anchors_sampled = 256;
    options.boxes_sampled = 512;
    FasterRcnn model(options, device);
    c10::cuda::CUDACachingAllocator::emptyCache();
    c10::cuda::CUDACachingAllocator::resetPeakStats(0);
    auto const corners = at::arange(objects, at::kFloat).unsqueeze(1).expand({objects, 4}) / 10;
    DetectionTarget const target{corners + at::tensor({0.0F, 0.0F, 20.0F, 20.0F}), at::ones({objects}, at::kLong)};
    model.losses({at::rand({3, 96, 140}, device)}, {target}).total().backward();
    return c10::cuda::CUDACachingAllocator::getDeviceStats(0)
        .allocated_bytes[static_cast<std::size_t>(c10::CachingAllocator::StatType::AGGREGATE)]
        .peak;
  };
  auto const with_few = peak_with(2);
  EXPECT_LT(std::abs(peak_with(200) - with_few), with_few / 50);  // the targets themselves, and true boxes as proposals
}

}  // namespace
}  // namespace maxbatch::test
