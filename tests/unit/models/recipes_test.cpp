// What a recipe asks for, and that training under it is still training.
#include "models/training_step.hpp"
#include <maxbatch/device/budgeted_cpu_device.hpp>
#include <maxbatch/models/gpt2.hpp>
#include <maxbatch/models/registry.hpp>
#include <maxbatch/models/swin_transformer.hpp>
#include <maxbatch/models/vision_transformer.hpp>
#include <maxbatch/training/max_batch_finder.hpp>

#include <torch/torch.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

namespace maxbatch::test {
namespace {

using namespace maxbatch::literals;
using testing::HasSubstr;
using testing::ThrowsMessage;

class NoWindow : public TrialWindow {
 public:
  Phase enter_phase(Phase) noexcept override { return Phase::other; }
  TrialEvidence evidence() const override { return {}; }
  void disarm() noexcept override {}
  Bytes still_allocated() const noexcept override { return {}; }
};

void run_step(PreparedStep const& prepared, std::int64_t batch_size) {
  NoWindow window;
  Trial::Setting setting;
  setting.batch_size = batch_size;
  Trial trial(setting, window);
  prepared.step(trial);
}

/// Points of two classes, in two clouds that overlap a little.
struct Clouds {
  explicit Clouds(std::int64_t count) {
    torch::manual_seed(4);
    labels = torch::randint(2, {count}, torch::kInt64);
    points = torch::randn({count, 8}) + 1.2 * (2 * labels - 1).unsqueeze(1);
  }
  at::Tensor points;
  at::Tensor labels;
};

std::shared_ptr<torch::nn::SequentialImpl> small_net() {
  torch::manual_seed(6);
  return torch::nn::Sequential(torch::nn::Linear(8, 32), torch::nn::GELU(),
                               torch::nn::LayerNorm(torch::nn::LayerNormOptions({32})), torch::nn::Linear(32, 2))
      .ptr();
}

/// Learns the clouds, batch after batch, from the beginning.
models::Learner learner_of(std::shared_ptr<torch::nn::SequentialImpl> const& net, Clouds const& clouds) {
  auto const next_input = std::make_shared<std::int64_t>(0);
  auto const next_target = std::make_shared<std::int64_t>(0);
  auto const part = [](at::Tensor const& all, std::int64_t& next, std::int64_t count) {
    auto const from = next % all.size(0);
    next += count;
    return all.slice(0, from, from + count);
  };
  models::Learner learner;
  learner.module = net;
  learner.draw_inputs = [=](Trial const& trial) { return part(clouds.points, *next_input, trial.batch_size()); };
  learner.draw_targets = [=](Trial const& trial) { return part(clouds.labels, *next_target, trial.batch_size()); };
  learner.loss = [net](at::Tensor const& inputs, at::Tensor const& targets) {
    return torch::nn::functional::cross_entropy(net->forward(inputs), targets);
  };
  return learner;
}

double accuracy_after_training(Recipe const& recipe) {
  Clouds const clouds(512);
  auto const net = small_net();
  auto const prepared = models::prepare_training_step(learner_of(net, clouds), recipe);
  for (int step = 0; step < 60; ++step) { run_step(prepared, 64); }
  at::NoGradGuard const no_gradients;
  net->eval();
  return (net->forward(clouds.points).argmax(1) == clouds.labels).to(at::kDouble).mean().item<double>();
}

TEST(Recipes, TrainAsWellInLessPrecisionAndWithEveryOptimizer) {
  auto const usual = accuracy_after_training({});
  EXPECT_GT(usual, 0.97);
  for (auto const precision : {Precision::fp32, Precision::bf16, Precision::fp16}) {
    for (auto const& name : optimizer_names()) {
      Recipe recipe;
      recipe.precision = precision;
      recipe.optimizer = *parse_optimizer(name);
      // One point of 512 is 0.002.
      EXPECT_NEAR(accuracy_after_training(recipe), usual, 0.01) << name << ", " << to_string(precision);
    }
  }
}

TEST(Recipes, TakeAStepAgainThatOverflowed) {
  Clouds const clouds(64);
  Recipe recipe;
  recipe.precision = Precision::fp16;
  recipe.optimizer = OptimizerKind::adamw;  // of a fused one nobody asks whether it was skipped
  auto const net = small_net();
  auto learner = learner_of(net, clouds);
  auto const calls = std::make_shared<int>(0);
  learner.loss = [calls, loss = learner.loss](at::Tensor const& inputs, at::Tensor const& targets) {
    auto const usual = loss(inputs, targets);
    return ++*calls <= 2 ? usual * std::numeric_limits<float>::infinity() : usual;
  };
  auto const prepared = models::prepare_training_step(std::move(learner), recipe);
  run_step(prepared, 32);
  EXPECT_EQ(*calls, 3) << "twice skipped";
  run_step(prepared, 32);
  EXPECT_EQ(*calls, 4);
}

TEST(Recipes, LeaveWeightsAloneWhereAFusedStepOverflowed) {
  Clouds const clouds(64);
  Recipe recipe;
  recipe.precision = Precision::fp16;
  recipe.optimizer = OptimizerKind::adamw_fused;
  auto const net = small_net();
  auto learner = learner_of(net, clouds);
  learner.loss = [loss = learner.loss](at::Tensor const& inputs, at::Tensor const& targets) {
    return loss(inputs, targets) * std::numeric_limits<float>::infinity();
  };
  std::vector<at::Tensor> before;
  for (auto const& parameter : net->parameters()) { before.push_back(parameter.detach().clone()); }
  run_step(models::prepare_training_step(std::move(learner), recipe), 32);
  auto const after = net->parameters();
  for (std::size_t i = 0; i < before.size(); ++i) { EXPECT_TRUE(at::equal(after[i], before[i])); }
}

TEST(Recipes, GiveUpOnGradientsThatAreNeverFinite) {
  Clouds const clouds(64);
  Recipe recipe;
  recipe.precision = Precision::fp16;
  recipe.optimizer = OptimizerKind::adamw;
  auto const net = small_net();
  auto learner = learner_of(net, clouds);
  learner.loss = [loss = learner.loss](at::Tensor const& inputs, at::Tensor const& targets) {
    return loss(inputs, targets) * std::numeric_limits<float>::quiet_NaN();
  };
  auto const prepared = models::prepare_training_step(std::move(learner), recipe);
  EXPECT_THAT([&] { run_step(prepared, 32); }, ThrowsMessage<std::runtime_error>(HasSubstr("not finite in 24 steps")));
}

// ---- accumulation ----

/// Gradients after one step over the same eight samples, in `count` micro-batches. No batch statistics, no dropout.
template <typename Model, typename Loss>
std::vector<at::Tensor> gradients_in(std::int64_t count, std::shared_ptr<Model> const& model, at::Tensor const& samples,
                                     Loss const& loss) {
  auto const next = std::make_shared<std::int64_t>(0);
  models::Learner learner;
  learner.module = model;
  learner.draw_inputs = [=](Trial const& trial) {
    *next += trial.batch_size();
    return samples.slice(0, *next - trial.batch_size(), *next);
  };
  learner.loss = [loss](at::Tensor const& inputs, at::Tensor const& /*targets*/) { return loss(inputs); };
  Recipe recipe;
  recipe.accumulation = count;
  recipe.optimizer = OptimizerKind::sgd;
  auto const guard = make_state_guard(std::shared_ptr<torch::nn::Module>(model));
  run_step(models::prepare_training_step(std::move(learner), recipe), samples.size(0) / count);
  EXPECT_EQ(*next, samples.size(0));
  std::vector<at::Tensor> gradients;
  for (auto const& parameter : model->parameters()) { gradients.push_back(parameter.grad().clone()); }
  guard->restore_values();
  return gradients;
}

template <typename Model, typename Loss>
void expect_accumulation_equals_the_big_batch(std::shared_ptr<Model> const& model, at::Tensor const& samples,
                                              Loss const& loss) {
  std::vector<at::Tensor> const big = gradients_in(1, model, samples, loss);
  for (auto const count : {2, 4, 8}) {
    std::vector<at::Tensor> const accumulated = gradients_in(count, model, samples, loss);
    for (std::size_t i = 0; i < big.size(); ++i) {
      // Sums of eight samples in another order: a few roundings of float.
      EXPECT_LT((accumulated[i] - big[i]).norm().item<double>(), 2e-6 * big[i].norm().item<double>() + 1e-9)
          << "parameter " << i << " in " << count << " micro-batches";
    }
  }
}

TEST(Accumulation, GivesTheGradientsOfTheBigBatch) {
  torch::manual_seed(8);
  models::VisionTransformerOptions vit;
  vit.image_size = {32, 32};
  vit.patch_size = 8;
  vit.width = 24;
  vit.depth = 2;
  vit.heads = 3;
  vit.classes = 5;
  auto const classifier = std::make_shared<models::VisionTransformer>(vit);
  expect_accumulation_equals_the_big_batch(classifier, torch::randn({8, 3, 32, 32}), [&](at::Tensor const& images) {
    return torch::nn::functional::cross_entropy(classifier->forward(images),
                                                torch::zeros({images.size(0)}, torch::kInt64));
  });

  models::Gpt2Options gpt2;
  gpt2.vocabulary = 50;
  gpt2.positions = 16;
  gpt2.width = 24;
  gpt2.layers = 2;
  gpt2.heads = 2;
  gpt2.dropout = 0;
  auto const language = std::make_shared<models::Gpt2>(gpt2);
  expect_accumulation_equals_the_big_batch(language, torch::randint(50, {8, 12}, torch::kInt64),
                                           [&](at::Tensor const& tokens) { return language->loss(tokens); });
}

// ---- checkpoints ----

models::SwinOptions small_swin() {
  models::SwinOptions options;
  options.image_size = {56, 56};
  options.classes = 10;
  options.width = 16;
  options.depths = {2, 4};
  options.heads = {2, 4};
  options.drop_path_rate = 0.4;
  return options;
}

TEST(Checkpoints, GiveSwinTheSameBits) {
  at::set_num_threads(1);
  for (auto const attention : {models::Attention::written_out, models::Attention::fused}) {
    auto options = small_swin();
    SCOPED_TRACE(attention == models::Attention::fused ? "fused" : "written out");
    options.attention = attention;
    torch::manual_seed(12);
    models::SwinTransformer usual(options);
    options.checkpoint = true;
    torch::manual_seed(12);
    models::SwinTransformer checkpointed(options);
    auto const images = torch::randn({6, 3, 56, 56});
    for (auto* const model : {&usual, &checkpointed}) {
      torch::manual_seed(13);
      model->forward(images).square().sum().backward();
    }
    auto const ours = checkpointed.named_parameters();
    for (auto const& item : usual.named_parameters()) {
      EXPECT_TRUE(at::equal(item.value().grad(), ours[item.key()].grad())) << item.key();
    }
  }
}

TEST(Checkpoints, TakeLessMemory) {
  models::VisionTransformerOptions vit;
  vit.image_size = {64, 64};
  vit.patch_size = 8;
  vit.width = 48;
  vit.depth = 6;
  vit.heads = 3;
  models::Gpt2Options gpt2;
  gpt2.vocabulary = 50;
  gpt2.positions = 64;
  gpt2.width = 48;
  gpt2.layers = 6;
  gpt2.heads = 3;
  for (auto const& model :
       {models::swin_factory("small_swin", "", small_swin()), models::vision_transformer_factory("small_vit", "", vit),
        models::gpt2_factory("small_gpt2", "", gpt2)}) {
    auto const peak = [&](bool checkpoint, Precision precision) {
      Recipe recipe;
      recipe.checkpoint = checkpoint;
      recipe.precision = precision;
      FinderOptions options;
      options.search.minimum = options.search.maximum.emplace(16);
      auto const result = MaxBatchFinder(budgeted_cpu_device(2_GiB), options).find(model, recipe);
      return result.search.answer()->outcome.peaks.allocated.count;
    };
    for (auto const precision : {Precision::fp32, Precision::bf16}) {
      EXPECT_LT(peak(true, precision), 0.6 * static_cast<double>(peak(false, precision)))
          << model.name << " in " << to_string(precision);
    }
  }
}

// ---- channels last ----

TEST(ChannelsLast, LaysOutConvolutionsAndTrainsThemAllTheSame) {
  Recipe recipe;
  recipe.channels_last = true;
  for (auto const& name : optimizer_names()) {
    recipe.optimizer = *parse_optimizer(name);
    FinderOptions options;
    options.search.maximum = 2;
    auto const result = MaxBatchFinder(budgeted_cpu_device(256_MiB), options)
                            .find(models::ModelRegistry::built_in().at("small_cnn"), recipe);
    EXPECT_EQ(result.batch_size(), 2) << name << ": " << result.summary();
  }

  torch::manual_seed(21);
  auto net = torch::nn::Sequential(torch::nn::Conv2d(3, 8, 3), torch::nn::ReLU(), torch::nn::AdaptiveAvgPool2d(1),
                                   torch::nn::Flatten());
  models::Learner learner;
  learner.module = net.ptr();
  auto is_channels_last = std::make_shared<bool>(false);
  learner.draw_inputs = [](Trial const& trial) { return torch::randn({trial.batch_size(), 3, 9, 9}); };
  learner.loss = [=](at::Tensor const& inputs, at::Tensor const& /*targets*/) mutable {
    *is_channels_last = inputs.is_contiguous(at::MemoryFormat::ChannelsLast);
    return net->forward(inputs).square().mean();
  };
  run_step(models::prepare_training_step(std::move(learner), recipe), 4);
  EXPECT_TRUE(*is_channels_last);
  EXPECT_TRUE(net->parameters()[0].is_contiguous(at::MemoryFormat::ChannelsLast));
  EXPECT_FALSE(net->parameters()[0].is_contiguous());
}

}  // namespace
}  // namespace maxbatch::test
