// RoIAlign, non-maximum suppression and matching on the CPU: against torchvision's on thousands of inputs, and what must
// hold for any input.
#include "models/detection/matching.hpp"
#include "models/detection/roi_align.hpp"
#include "models/detection/suppression.hpp"
#include "support/python_results.hpp"
#include <maxbatch/models/detection_operators.hpp>
#include <maxbatch/search/errors.hpp>

#include <torch/torch.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <memory>
#include <string>
#include <vector>

namespace maxbatch::test {
namespace {

using models::batched_nms;
using models::nms;
using models::roi_align;
using models::RoiAlignOptions;
using testing::HasSubstr;

#ifndef MAXBATCH_PYTHON
#define MAXBATCH_PYTHON ""
#define MAXBATCH_OPERATORS_REFERENCE ""
#endif

class AgainstTorchvisionOperators : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    python().reset(new PythonResults(MAXBATCH_PYTHON, MAXBATCH_OPERATORS_REFERENCE, "torchvision"));
  }
  static void TearDownTestSuite() { python().reset(); }
  void SetUp() override {
    torch::set_num_threads(1);
    if (!python()->failure().empty()) { FAIL() << python()->failure(); }
    if (!python()->why_not().empty()) { GTEST_SKIP() << python()->why_not(); }
  }
  static std::unique_ptr<PythonResults>& python() {
    static std::unique_ptr<PythonResults> results;
    return results;
  }
};

/// Roundings of a handful of operations; double shows mistakes that float would hide.
double rounding_of(at::Tensor const& x) { return x.scalar_type() == at::kDouble ? 1e-12 : 3e-6; }

TEST_F(AgainstTorchvisionOperators, NmsKeepsTheSameBoxes) {
  auto const file = python()->results_of("nms");
  auto const boxes = tensors_at(file, "boxes");
  auto const scores = tensors_at(file, "scores");
  auto const keep = tensors_at(file, "keep");
  auto const thresholds = tensor_at(file, "thresholds");
  ASSERT_EQ(boxes.size(), 3001U);
  EXPECT_GT(boxes.back().size(0), 65'536);
  for (std::size_t i = 0; i < boxes.size(); ++i) {
    auto const ours = nms(boxes[i], scores[i], thresholds[static_cast<std::int64_t>(i)].item<double>());
    EXPECT_TRUE(at::equal(ours, keep[i])) << "case " << i << "\n" << boxes[i] << scores[i] << keep[i] << ours;
  }
}

TEST_F(AgainstTorchvisionOperators, BatchedNmsKeepsTheSameBoxes) {
  auto const file = python()->results_of("batched_nms");
  auto const boxes = tensors_at(file, "boxes");
  auto const scores = tensors_at(file, "scores");
  auto const classes = tensors_at(file, "classes");
  auto const keep = tensors_at(file, "keep");
  ASSERT_EQ(boxes.size(), 600U);
  for (std::size_t i = 0; i < boxes.size(); ++i) {
    EXPECT_TRUE(at::equal(batched_nms(boxes[i], scores[i], classes[i], 0.5), keep[i])) << "case " << i;
  }
}

TEST_F(AgainstTorchvisionOperators, RoiAlignPoolsTheSameNumbers) {
  auto const file = python()->results_of("roi_align");
  auto const features = tensors_at(file, "features");
  auto const rois = tensors_at(file, "rois");
  auto const options = tensors_at(file, "options");
  auto const pooled = tensors_at(file, "pooled");
  auto const weights = tensors_at(file, "weights");
  auto const gradients = tensors_at(file, "gradients");
  ASSERT_EQ(features.size(), 1500U);
  for (std::size_t i = 0; i < features.size(); ++i) {
    SCOPED_TRACE(i);
    auto const number = [&](std::int64_t k) { return options[i][k].item<double>(); };
    auto const whole = [&](std::int64_t k) { return static_cast<std::int64_t>(number(k)); };
    auto const x = features[i].clone().requires_grad_(true);
    auto const ours = roi_align(x, rois[i], number(0), RoiAlignOptions{whole(1), whole(2), whole(3), whole(4) != 0});
    ASSERT_EQ(ours.sizes(), pooled[i].sizes());
    EXPECT_EQ(ours.scalar_type(), pooled[i].scalar_type());
    EXPECT_LT(error_of(ours, pooled[i]), rounding_of(ours));
    (ours * weights[i]).sum().backward();
    EXPECT_LT(error_of(x.grad(), gradients[i]), rounding_of(ours));
  }
}

TEST_F(AgainstTorchvisionOperators, APyramidPoolsTheSameNumbers) {
  auto const file = python()->results_of("pyramid");
  auto const maps = tensors_at(file, "maps");
  auto const rois = tensors_at(file, "rois");
  auto const pooled = tensors_at(file, "pooled");
  auto const weights = tensors_at(file, "weights");
  auto const gradients = tensors_at(file, "gradients");
  auto const heights = tensor_at(file, "heights");
  ASSERT_EQ(rois.size(), 30U);
  for (std::size_t i = 0; i < rois.size(); ++i) {
    SCOPED_TRACE(i);
    std::vector<at::Tensor> levels;
    for (std::size_t level = 0; level < 4; ++level) {
      levels.push_back(maps[4 * i + level].clone().requires_grad_(true));
    }
    auto const scales = models::scales_of(levels, heights[static_cast<std::int64_t>(i)].item<std::int64_t>());
    auto const ours = models::pyramid_roi_align(levels, rois[i], scales, {});
    EXPECT_LT(error_of(ours, pooled[i]), rounding_of(ours));
    (ours * weights[i]).sum().backward();
    for (std::size_t level = 0; level < 4; ++level) {
      EXPECT_LT(error_of(levels[level].grad(), gradients[4 * i + level]), rounding_of(ours)) << level;
    }
  }
}

// ---- what holds for any input ----

at::Tensor random_boxes(std::int64_t count, double spread = 100) {
  auto const corner = at::rand({count, 2}) * spread;
  return at::cat({corner, corner + at::rand({count, 2}) * 40}, 1);
}

at::Tensor overlaps(at::Tensor const& a, at::Tensor const& b) {
  auto const area = [](at::Tensor const& x) {
    return (x.select(1, 2) - x.select(1, 0)) * (x.select(1, 3) - x.select(1, 1));
  };
  auto const low = at::maximum(a.unsqueeze(1).narrow(2, 0, 2), b.unsqueeze(0).narrow(2, 0, 2));
  auto const high = at::minimum(a.unsqueeze(1).narrow(2, 2, 2), b.unsqueeze(0).narrow(2, 2, 2));
  auto const side = (high - low).clamp_min(0);
  auto const both = side.select(2, 0) * side.select(2, 1);
  return both / (area(a).unsqueeze(1) + area(b).unsqueeze(0) - both);
}

TEST(Nms, LeavesNoTwoThatOverlapAndRemovesNoneWithoutCause) {
  torch::manual_seed(3);
  for (int round = 0; round < 200; ++round) {
    auto const boxes = random_boxes(60);
    auto const scores = at::rand({60});
    auto const keep = nms(boxes, scores, 0.4);
    auto const of_kept = overlaps(boxes.index_select(0, keep), boxes.index_select(0, keep));
    EXPECT_LE(of_kept.fill_diagonal_(0).max().item<double>(), 0.4);
    auto const kept_scores = scores.index_select(0, keep);
    EXPECT_TRUE((kept_scores.slice(0, 1) <= kept_scores.slice(0, 0, -1)).all().item<bool>());
    auto const cause = (overlaps(boxes.index_select(0, keep), boxes) > 0.4)
                           .logical_and(kept_scores.unsqueeze(1) >= scores.unsqueeze(0))
                           .any(0);
    auto is_kept = at::zeros({60}, at::kBool);
    is_kept.index_fill_(0, keep, true);
    EXPECT_TRUE(cause.logical_or(is_kept).all().item<bool>());
  }
}

TEST(Nms, OfWhatWasKeptKeepsAll) {
  torch::manual_seed(4);
  auto const boxes = random_boxes(500);
  auto const scores = at::rand({500});
  auto const keep = nms(boxes, scores, 0.3);
  EXPECT_TRUE(at::equal(nms(boxes.index_select(0, keep), scores.index_select(0, keep), 0.3),
                        at::arange(keep.size(0), at::kLong)));
  EXPECT_LT(keep.size(0), 500);
}

TEST(Nms, OfClassesIsThatOfEachClass) {
  torch::manual_seed(5);
  auto const boxes = random_boxes(3000, 1000);
  auto const scores = at::randperm(3000).to(at::kFloat);
  auto const classes = at::randint(-4, 5, {3000}, at::kLong);
  auto const keep = batched_nms(boxes, scores, classes, 0.5);
  std::vector<at::Tensor> parts;
  for (std::int64_t of_class = -4; of_class < 5; ++of_class) {
    auto const members = (classes == of_class).nonzero().squeeze(1);
    parts.push_back(members.index_select(0, nms(boxes.index_select(0, members), scores.index_select(0, members), 0.5)));
  }
  auto const all = at::cat(parts);
  EXPECT_TRUE(at::equal(keep, all.index_select(0, scores.index_select(0, all).argsort(0, true))));
}

TEST(Nms, GoesThroughManyRowsAtOnce) {
  torch::manual_seed(6);
  auto const boxes = at::stack({random_boxes(200), random_boxes(200), random_boxes(200)});
  auto const scores = at::rand({3, 200});
  auto const segments = at::randint(-1, 3, {3, 200}, at::kInt);
  auto const order = scores.argsort(/*stable=*/true, 1, true);
  auto const keep = models::suppress(boxes, order, segments, 3, 0.3);
  for (std::int64_t row = 0; row < 3; ++row) {
    auto is_kept = at::zeros({200}, at::kBool);
    is_kept.index_fill_(0, order[row].masked_select(keep[row]), true);
    for (std::int64_t segment = 0; segment < 3; ++segment) {
      auto const members = (segments[row] == segment).nonzero().squeeze(1);
      auto const expected =
          members.index_select(0, nms(boxes[row].index_select(0, members), scores[row].index_select(0, members), 0.3));
      EXPECT_TRUE(at::equal(std::get<0>(expected.sort()), members.masked_select(is_kept.index_select(0, members))));
    }
    EXPECT_FALSE(is_kept.masked_select(segments[row] < 0).any().item<bool>());
  }
}

template <typename Call>
std::string complaint_of(Call const& call) {
  try {
    call();
  } catch (InvalidArgument const& error) { return error.what(); }
  return "(nothing was thrown)";
}

TEST(DetectionOperators, SayWhatIsWrongWithTheirInput) {
  auto const boxes = random_boxes(3);
  EXPECT_THAT(complaint_of([&] { nms(boxes.narrow(1, 0, 3), at::rand({3}), 0.5); }), HasSubstr("was given [3, 3]"));
  EXPECT_THAT(complaint_of([&] { nms(boxes, at::rand({2}), 0.5); }), HasSubstr("scores [2] for boxes [3, 4]"));
  EXPECT_THAT(complaint_of([&] { batched_nms(boxes, at::rand({3}), at::rand({3}), 0.5); }),
              HasSubstr("a whole number for each box"));
  EXPECT_THAT(complaint_of([&] {
                roi_align(at::rand({2, 3, 4}), at::rand({1, 5}), 1);
              }),
              HasSubstr("feature maps [N, C, H, W], and was given [2, 3, 4]"));
  EXPECT_THAT(complaint_of([&] {
                roi_align(at::rand({1, 2, 3, 4}), at::rand({1, 4}), 1);
              }),
              HasSubstr("regions [K, 5]"));
  EXPECT_THAT(complaint_of([&] {
                roi_align(at::rand({1, 2, 3, 4}), at::rand({1, 5}), 1, {0, 7, 2, false});
              }),
              HasSubstr("asked for 0x7"));
}

TEST(RoiAlign, OfAConstantMapIsThatConstantInside) {
  auto const map = at::full({1, 2, 30, 40}, 3.5);
  auto const pooled = roi_align(map, at::tensor({0.0F, 3.0F, 4.0F, 21.0F, 17.0F}).view({1, 5}), 1);
  EXPECT_TRUE(at::allclose(pooled, at::full_like(pooled, 3.5)));
}

TEST(RoiAlign, OfARampIsTheRampInTheMiddleOfACell) {
  // x + 100 y, of which bilinear samples are exact; the mean of a cell is the value in its middle.
  auto const map =
      (at::arange(40, at::kDouble).unsqueeze(0) + 100 * at::arange(30, at::kDouble).unsqueeze(1)).view({1, 1, 30, 40});
  auto const pooled = roi_align(map, at::tensor({0.0, 4.0, 6.0, 18.0, 20.0}).view({1, 5}), 1, {7, 7, 2, false});
  auto const middle = (at::arange(7, at::kDouble) + 0.5) * 2;
  auto const expected = (middle + 4).unsqueeze(0) + 100 * (middle + 6).unsqueeze(1);
  EXPECT_LT((pooled[0][0] - expected).abs().max().item<double>(), 1e-10);
}

TEST(RoiAlign, SamplesNothingWhereARegionIsNoNumberOrItsImageIsNotThere) {
  constexpr auto nan = std::numeric_limits<float>::quiet_NaN();
  constexpr auto infinity = std::numeric_limits<float>::infinity();
  auto const map = at::ones({2, 1, 8, 8}).requires_grad_(true);
  auto const rois = at::tensor({0.0F, nan,  1.0F, 5.0F, 5.0F, 7.0F, 1.0F, 1.0F, 5.0F,      5.0F, -1.0F,    1.0F, 1.0F,
                                5.0F, 5.0F, nan,  1.0F, 1.0F, 5.0F, 5.0F, 1.0F, -infinity, 1.0F, infinity, 5.0F})
                        .view({5, 5});
  for (auto const ratio : {2, 0}) {
    auto const pooled = roi_align(map, rois, 1, {2, 2, ratio, true});
    EXPECT_EQ(pooled.abs().max().item<float>(), 0) << pooled;
    pooled.sum().backward();
    EXPECT_EQ(map.grad().abs().max().item<float>(), 0);
  }
}

TEST(RoiAlign, GivesTheSameGradientsOnAnyNumberOfThreads) {
  torch::manual_seed(7);
  auto const map = at::rand({2, 16, 20, 20});
  auto const rois = at::cat({at::randint(0, 2, {50, 1}).to(at::kFloat), random_boxes(50, 20)}, 1);
  auto const gradient = [&](int threads) {
    torch::set_num_threads(threads);
    auto const x = map.clone().requires_grad_(true);
    roi_align(x, rois, 0.5).square().sum().backward();
    return x.grad();
  };
  auto const one = gradient(1);
  EXPECT_TRUE(at::equal(one, gradient(4)));
  torch::set_num_threads(1);
}

TEST(RoiAlign, HasTheGradientOfItsDifferences) {
  torch::manual_seed(8);
  auto const rois = at::cat({at::zeros({4, 1}, at::kDouble), random_boxes(4, 10).to(at::kDouble)}, 1);
  auto const map = at::rand({1, 1, 6, 7}, at::kDouble).requires_grad_(true);
  auto const value = [&](at::Tensor const& x) { return roi_align(x, rois, 0.3, {3, 2, 0, true}).sin().sum(); };
  value(map).backward();
  for (std::int64_t pixel = 0; pixel < map.numel(); ++pixel) {
    at::NoGradGuard const no_gradients;
    auto const step = at::zeros_like(map);
    step.view(-1)[pixel] = 1e-6;
    auto const difference = (value(map + step) - value(map - step)).item<double>() / 2e-6;
    EXPECT_NEAR(map.grad().view(-1)[pixel].item<double>(), difference, 1e-8);
  }
}

/// torchvision's Matcher, by tables.
at::Tensor matches_by_table(at::Tensor const& truth, at::Tensor const& boxes,
                            models::MatchThresholds const& thresholds) {
  auto const table = overlaps(truth, boxes);
  auto const [most, match] = table.max(0);
  auto result = match.clone();
  result.masked_fill_(most < thresholds.high, models::kBetweenThresholds);
  result.masked_fill_(most < thresholds.low, models::kBelowThreshold);
  if (thresholds.low_quality_matches) {
    auto const is_best = (table == std::get<0>(table.max(1)).unsqueeze(1)).any(0);
    result = at::where(is_best, match, result);
  }
  return result;
}

TEST(MatchBoxes, AgreesWithATableOfOverlaps) {
  torch::manual_seed(9);
  for (int round = 0; round < 300; ++round) {
    models::MatchThresholds thresholds;
    thresholds.low = 0.3;
    thresholds.high = round % 2 == 0 ? 0.7 : 0.3;
    thresholds.low_quality_matches = round % 3 != 0;
    std::vector<at::Tensor> truth;
    for (auto const count : {3 + round % 80, 0, 1}) {
      truth.push_back(round % 5 == 0 ? random_boxes(count).round() + at::tensor({0.0F, 0.0F, 1.0F, 1.0F})
                                     : random_boxes(count));
    }
    if (round % 7 == 0) { truth[0][0] += 1000; }  // overlaps with nothing: then everything is its best
    auto boxes = at::stack({random_boxes(150), random_boxes(150), random_boxes(150)});
    if (round % 5 == 0) { boxes = boxes.round(); }  // equal overlaps, overlaps that are thresholds, and no area
    auto const found = models::match_boxes(models::TruthBoxes::of(truth, torch::kCPU, at::kFloat), boxes, thresholds);
    std::int64_t start = 0;
    for (std::int64_t image = 0; image < 3; ++image) {
      auto const& of_image = truth[static_cast<std::size_t>(image)];
      auto expected = at::full({150}, models::kBelowThreshold, at::kLong);
      if (of_image.size(0) > 0) {
        expected = matches_by_table(of_image, boxes[image], thresholds);
        expected = at::where(expected >= 0, expected + start, expected);
      }
      EXPECT_TRUE(at::equal(found[image], expected)) << round << " " << image;
      start += of_image.size(0);
    }
  }
}

TEST(MatchBoxes, TakesOneSetOfBoxesForAllImages) {
  torch::manual_seed(10);
  auto const truth = models::TruthBoxes::of({random_boxes(4), random_boxes(7)}, torch::kCPU, at::kFloat);
  auto const boxes = random_boxes(90);
  EXPECT_TRUE(
      at::equal(models::match_boxes(truth, boxes, {}), models::match_boxes(truth, at::stack({boxes, boxes}), {})));
}

}  // namespace
}  // namespace maxbatch::test
