#include "support/data_dependent_model.hpp"
#include <maxbatch/device/budgeted_cpu_device.hpp>
#include <maxbatch/models/registry.hpp>
#include <maxbatch/search/errors.hpp>
#include <maxbatch/training/max_batch_finder.hpp>

#include <ATen/autocast_mode.h>
#include <torch/torch.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace maxbatch::test {
namespace {

using namespace maxbatch::literals;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsSupersetOf;

/// Counts no memory; remembers which phases were entered, in order.
class PhaseRecorder : public TrialWindow {
 public:
  Phase enter_phase(Phase phase) noexcept override {
    auto const before = current_;
    current_ = phase;
    if (phase != Phase::other) { entered.push_back(phase); }
    return before;
  }
  TrialEvidence evidence() const override { return {}; }
  void disarm() noexcept override {}
  Bytes still_allocated() const noexcept override { return {}; }

  std::vector<Phase> entered;

 private:
  Phase current_ = Phase::other;
};

std::vector<Phase> phases_of_a_step(ModelFactory const& model, Recipe const& recipe, StepMode mode) {
  auto const prepared = model.make(torch::kCPU, recipe);
  PhaseRecorder window;
  Trial::Setting setting;
  setting.batch_size = 2;
  setting.mode = mode;
  Trial trial(setting, window);
  prepared.step(trial);
  return window.entered;
}

std::string complaint_about(std::string const& model, Recipe const& recipe) {
  try {
    models::ModelRegistry::built_in().at(model).make(torch::kCPU, recipe);
  } catch (InvalidArgument const& error) { return error.what(); }
  return "(nothing was thrown)";
}

/// One thread: these nets are small, and threads that wait for each other on a busy machine take longer than the work.
class OnOneThread : public testing::Environment {
 public:
  void SetUp() override { at::set_num_threads(1); }
};
auto* const on_one_thread = testing::AddGlobalTestEnvironment(new OnOneThread);

class EveryModel : public testing::TestWithParam<std::string> {
 protected:
  ModelFactory model_ = models::ModelRegistry::built_in().at(GetParam());
};

TEST_P(EveryModel, TrainsInItsPhases) {
  EXPECT_THAT(phases_of_a_step(model_, {}, StepMode::train),
              ElementsAre(Phase::setup, Phase::forward, Phase::backward, Phase::optimizer));
}

TEST_P(EveryModel, EvaluatesWithoutGradients) {
  EXPECT_THAT(phases_of_a_step(model_, {}, StepMode::evaluate), ElementsAre(Phase::setup, Phase::evaluation));
  EXPECT_TRUE(at::GradMode::is_enabled());
}

TEST_P(EveryModel, AccumulatesBeforeOneOptimizerStep) {
  Recipe recipe;
  recipe.accumulation = 2;
  EXPECT_THAT(phases_of_a_step(model_, recipe, StepMode::train),
              ElementsAre(Phase::setup, Phase::forward, Phase::backward, Phase::setup, Phase::forward, Phase::backward,
                          Phase::optimizer));
}

TEST_P(EveryModel, LeavesAutocastAsItWas) {
  Recipe recipe;
  recipe.precision = Precision::bf16;
  phases_of_a_step(model_, recipe, StepMode::train);
  EXPECT_FALSE(at::autocast::is_autocast_enabled(at::kCPU));
}

TEST_P(EveryModel, FindsALargerBatchInLessPrecisionOrWithASmallerOptimizer) {
  FinderOptions options;
  options.steps = 2;
  auto const budget = GetParam() == "small_cnn" ? 6_MiB : 16_MiB;
  auto const largest = [&](Recipe const& recipe) {
    auto const result = MaxBatchFinder(budgeted_cpu_device(budget), options).find(model_, recipe);
    EXPECT_EQ(result.search.proof, Proof::bracketed) << result.summary();
    return result.batch_size().value_or(0);
  };
  auto const usual = largest({});
  Recipe bf16;
  bf16.precision = Precision::bf16;
  EXPECT_GT(largest(bf16), usual);
  Recipe sgd;
  sgd.optimizer = OptimizerKind::sgd_fused;
  EXPECT_GE(largest(sgd), usual);  // small_cnn's optimizer state is less than one image's activations
}

TEST_P(EveryModel, RecordsEvaluationBetweenTrainingSteps) {
  FinderOptions options;
  options.order = {StepMode::train, StepMode::evaluate, StepMode::train};
  options.search.maximum = 2;
  auto const result = MaxBatchFinder(budgeted_cpu_device(256_MiB), options).find(model_);
  ASSERT_EQ(result.batch_size(), 2);
  std::vector<Phase> phases;
  for (auto const& peaks : result.search.answer()->outcome.phases) { phases.push_back(peaks.phase); }
  EXPECT_THAT(phases, IsSupersetOf({Phase::forward, Phase::backward, Phase::optimizer, Phase::evaluation}));
}

INSTANTIATE_TEST_SUITE_P(BuiltIn, EveryModel, testing::Values("small_cnn", "small_transformer"),
                         [](auto const& model) { return model.param; });

TEST(Recipes, AreRefusedBeforeAnythingIsBuilt) {
  Recipe tf32;
  tf32.precision = Precision::tf32;
  EXPECT_THAT(complaint_about("small_cnn", tf32), HasSubstr("tf32 is a mode of NVIDIA's matrix units"));
  Recipe checkpointed;
  checkpointed.checkpoint = true;
  EXPECT_THAT(complaint_about("small_cnn", checkpointed), HasSubstr("checkpoint is not available for small_cnn"));
  Recipe channels_last;
  channels_last.channels_last = true;
  EXPECT_THAT(complaint_about("swin_t", channels_last), HasSubstr("channels last is not available for swin_t"));
  Recipe with_length;
  with_length.sequence_length = 128;
  EXPECT_THAT(complaint_about("small_cnn", with_length),
              HasSubstr("a sequence length of 128 means nothing to small_cnn"));
  Recipe no_step;
  no_step.accumulation = 0;
  EXPECT_THAT(complaint_about("small_cnn", no_step), HasSubstr("accumulation 0 makes no step"));
  Recipe small;
  small.image_size = ImageSize{4, 32};
  EXPECT_THAT(complaint_about("small_cnn", small), HasSubstr("image size 4x32 is too small for small_cnn"));
  Recipe with_images;
  with_images.image_size = ImageSize{32, 32};
  EXPECT_THAT(complaint_about("small_transformer", with_images), HasSubstr("takes no images"));
}

TEST(Recipes, HaveTheNamesOfTheCommandLine) {
  EXPECT_THAT(optimizer_names(),
              ElementsAre("adamw", "adamw-foreach", "adamw-fused", "sgd", "sgd-foreach", "sgd-fused"));
  for (auto const& name : optimizer_names()) { EXPECT_EQ(to_string(*parse_optimizer(name)), name); }
  for (auto const precision : {Precision::fp32, Precision::tf32, Precision::bf16, Precision::fp16}) {
    EXPECT_EQ(parse_precision(to_string(precision)), precision);
  }
  EXPECT_EQ(parse_optimizer("adam"), std::nullopt);
  EXPECT_EQ(parse_precision("FP32"), std::nullopt);
}

TEST(SmallCnn, TakesTheImageOfTheTrialBeforeThatOfTheRecipe) {
  InputSizeOptions options;
  options.batch_size = 2;
  options.stride = 8;
  options.maximum = 24;
  auto const model = models::ModelRegistry::built_in().at("small_cnn");
  auto const result = MaxBatchFinder(budgeted_cpu_device(256_MiB)).find_input_size(model, {}, options);
  EXPECT_EQ(result.largest, (ImageSize{24, 24})) << result.summary();
}

TEST(DataDependentModel, NeedsTheSameMemoryInEveryTrialAndMoreForMoreImages) {
  auto const peak_at = [](std::int64_t batch_size) {
    FinderOptions options;
    options.search.minimum = options.search.maximum.emplace(batch_size);
    auto const result = MaxBatchFinder(budgeted_cpu_device(1_GiB), options).find(data_dependent_model(/*seed=*/7));
    return result.search.answer()->outcome.peaks.allocated;
  };
  Bytes before;
  std::vector<std::int64_t> growth;
  for (std::int64_t batch_size = 1; batch_size <= 24; ++batch_size) {
    auto const peak = peak_at(batch_size);
    EXPECT_EQ(peak, peak_at(batch_size)) << batch_size;
    EXPECT_GE(peak, before) << batch_size;
    growth.push_back((peak - before).count);
    before = peak;
  }
  // The number of boxes differs from image to image, so the growth must, too: shapes do depend on data.
  std::sort(growth.begin(), growth.end());
  EXPECT_GT(std::unique(growth.begin(), growth.end()) - growth.begin(), 10);
}

}  // namespace
}  // namespace maxbatch::test
