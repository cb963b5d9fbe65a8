// Recipes on a card, dry or real: what they take, and that nothing waits; on a real one also what they compute.
#include "card_test.hpp"
#include "models/training_step.hpp"
#include <maxbatch/models/gpt2.hpp>
#include <maxbatch/models/vision_transformer.hpp>
#include <maxbatch/search/errors.hpp>
#include <maxbatch/training/checkpoint.hpp>
#include <maxbatch/training/gradient_scaler.hpp>
#include <maxbatch/training/max_batch_finder.hpp>
#include <maxbatch/training/multi_tensor_optimizers.hpp>
#include <maxbatch/training/speed.hpp>
#include <maxbatch/training/state_guard.hpp>

#include <c10/cuda/CUDAFunctions.h>
#include <torch/torch.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <fstream>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include <unistd.h>

namespace maxbatch::test {
namespace {

using namespace literals;
using Tensors = std::vector<torch::Tensor>;

models::VisionTransformerOptions small_vit() {
  models::VisionTransformerOptions options;
  options.image_size = {64, 64};
  options.patch_size = 8;
  options.width = 192;
  options.depth = 4;
  options.heads = 3;
  options.classes = 10;
  return options;
}

models::Gpt2Options small_gpt2() {
  models::Gpt2Options options;
  options.vocabulary = 500;
  options.positions = 128;
  options.width = 192;
  options.layers = 4;
  options.heads = 3;
  return options;
}

/// Every wait for the device is an error, until destruction.
class NothingWaits {
 public:
  NothingWaits() { c10::cuda::warning_state().set_sync_debug_mode(c10::cuda::SyncDebugMode::L_ERROR); }
  ~NothingWaits() { c10::cuda::warning_state().set_sync_debug_mode(c10::cuda::SyncDebugMode::L_DISABLED); }
  NothingWaits(NothingWaits const&) = delete;
  NothingWaits& operator=(NothingWaits const&) = delete;
};

class CardRecipesTest : public CardTest {
 protected:
  TrialOutcome outcome(ModelFactory const& model, Recipe const& recipe, std::int64_t size) {
    FinderOptions options;
    options.search.minimum = options.search.maximum.emplace(size);
    auto const result = MaxBatchFinder(device, options).find(model, recipe);
    EXPECT_EQ(result.batch_size(), size) << result.summary();
    return result.search.trials.at(0).outcome;
  }

  static std::int64_t allocated_in(TrialOutcome const& outcome, Phase phase) {
    for (auto const& [known, peaks] : outcome.phases) {
      if (known == phase) { return peaks.allocated.count; }
    }
    return 0;
  }
};

TEST_F(CardRecipesTest, FusedOptimizersHaveNoTemporaries) {
  auto const model = models::vision_transformer_factory("small_vit", "", small_vit());
  auto const weights = *model.parameters * 4;
  auto const in_optimizer = [&](OptimizerKind kind) {
    Recipe recipe;
    recipe.optimizer = kind;
    return allocated_in(outcome(model, recipe, 1), Phase::optimizer);
  };
  auto const fused = in_optimizer(OptimizerKind::adamw_fused);
  EXPECT_GE(in_optimizer(OptimizerKind::adamw_foreach), fused + weights);
  EXPECT_GT(in_optimizer(OptimizerKind::adamw), fused);
  auto const fused_sgd = in_optimizer(OptimizerKind::sgd_fused);
  EXPECT_LE(fused_sgd, in_optimizer(OptimizerKind::sgd_foreach));
  // On a real card cuBLAS's workspaces, 32 MiB each on an H200, are alive in some of these trials and not in others.
  if (device->describe().evidence == DeviceEvidence::measured) { return; }
  // AdamW has one moment more than SGD, and nothing else; rounding of some fifty small tensors to 512 bytes.
  EXPECT_NEAR(static_cast<double>(fused - fused_sgd), static_cast<double>(weights), 1 << 16);
}

TEST_F(CardRecipesTest, CheckpointsTakeLess) {
  for (auto const& model : {models::vision_transformer_factory("small_vit", "", small_vit()),
                            models::gpt2_factory("small_gpt2", "", small_gpt2())}) {
    for (auto const precision : {Precision::fp32, Precision::fp16}) {
      Recipe recipe;
      recipe.precision = precision;
      auto const usual = outcome(model, recipe, 32).peaks.allocated.count;
      recipe.checkpoint = true;
      // Measured: 0.73 of it on an H200 in fp16, where cuBLAS's workspaces are a part of both; less elsewhere.
      EXPECT_LT(outcome(model, recipe, 32).peaks.allocated.count, 0.8 * static_cast<double>(usual))
          << model.name << " in " << to_string(precision);
    }
  }
}

TEST_F(CardRecipesTest, EveryPrecisionAndOptimizerHasABoundary) {
  auto const model = models::vision_transformer_factory("small_vit", "", small_vit());
  for (auto const precision : {Precision::fp32, Precision::tf32, Precision::bf16, Precision::fp16}) {
    for (auto const& name : optimizer_names()) {
      Recipe recipe;
      recipe.precision = precision;
      recipe.optimizer = *parse_optimizer(name);
      device->set_budget(256_MiB);
      auto const result = MaxBatchFinder(device, {}).find(model, recipe);
      EXPECT_EQ(result.search.proof, Proof::bracketed)
          << name << " in " << to_string(precision) << ": " << result.summary();
    }
  }
  device->set_budget(std::nullopt);
}

TEST_F(CardRecipesTest, HoldTf32OrItsAbsenceInTheBackwardPassToo) {
  struct Flags {
    bool matmul = false;
    bool convolution = false;
  };
  for (auto const precision : {Precision::fp32, Precision::tf32, Precision::bf16, Precision::fp16}) {
    auto net = torch::nn::Sequential(torch::nn::Linear(8, 2));
    net->to(torch::kCUDA);
    std::vector<Flags> seen;
    auto const look = [&seen] {
      seen.push_back({at::globalContext().allowTF32CuBLAS(), at::globalContext().allowTF32CuDNN()});
    };
    models::Learner learner;
    learner.module = net.ptr();
    learner.draw_inputs = [](Trial const& trial) { return torch::randn({4, 8}, trial.device()); };
    learner.loss = [&](torch::Tensor const& inputs, torch::Tensor const& /*targets*/) {
      look();
      auto const loss = net->forward(inputs).square().mean();
      loss.register_hook([look](torch::Tensor const& gradient) {
        look();
        return gradient;
      });
      return loss;
    };
    Recipe recipe;
    recipe.precision = precision;
    look();
    auto const prepared = models::prepare_training_step(std::move(learner), recipe);
    auto const window = device->open_trial();
    Trial::Setting setting;
    setting.batch_size = 4;
    setting.device = device->torch_device();
    Trial trial(setting, *window);
    prepared.step(trial);
    look();
    ASSERT_EQ(seen.size(), 4U) << "before, forward, backward, after";
    for (auto const& during : {seen[1], seen[2]}) {
      EXPECT_EQ(during.matmul, precision == Precision::tf32) << to_string(precision);
      EXPECT_EQ(during.convolution, precision == Precision::tf32) << to_string(precision);
    }
    EXPECT_EQ(seen[3].matmul, seen[0].matmul);
    EXPECT_EQ(seen[3].convolution, seen[0].convolution);
  }
}

/// Of this process, in host memory.
std::int64_t resident_bytes() {
  std::ifstream file("/proc/self/statm");
  std::int64_t total = 0;
  std::int64_t resident = 0;
  file >> total >> resident;
  return resident * sysconf(_SC_PAGESIZE);
}

TEST_F(CardRecipesTest, KeepValuesButNotTheNoneOfADryCardsLargeTensors) {
  auto const known = torch::tensor({1.0F, 2.0F}).cuda();
  auto const large = torch::empty({1 << 26}, torch::kCUDA);
  if (!is_dry()) { large.fill_(3); }
  auto const before = resident_bytes();
  auto const of_known = make_state_guard(known);
  auto const of_large = make_state_guard(large);
  auto const grown = resident_bytes() - before;
  known.zero_();
  large.zero_();
  of_large->restore_values();
  of_known->restore_values();
  EXPECT_TRUE(torch::equal(known.cpu(), torch::tensor({1.0F, 2.0F})));
  if (is_dry()) {
    EXPECT_LT(grown, large.numel()) << "a quarter of its bytes";
  } else {
    EXPECT_EQ(large.sum(torch::kDouble).item<double>(), 3.0 * static_cast<double>(large.numel()));
  }
}

TEST_F(CardRecipesTest, NothingWaitsForFusedOptimizersUnderALossScale) {
  auto const weight = torch::ones({1000}, torch::device(torch::kCUDA).requires_grad(true));
  FusedAdamW adamw(Tensors{weight}, torch::optim::AdamWOptions(1e-3));
  FusedSGD sgd(Tensors{weight}, torch::optim::SGDOptions(1e-3).momentum(0.9));
  torch::optim::AdamW usual(Tensors{weight}, torch::optim::AdamWOptions(1e-3));
  GradientScaler scaler;
  auto const iterate = [&](torch::optim::Optimizer& optimizer) {
    optimizer.zero_grad();
    scaler.scale(weight.sum()).backward();
    NothingWaits const guard;
    scaler.step(optimizer);
    scaler.update();
  };
  iterate(adamw);
  iterate(adamw);
  iterate(sgd);
  iterate(sgd);
  EXPECT_ANY_THROW(iterate(usual)) << "somebody has to know whether to call it";
}

TEST_F(CardRecipesTest, ADryCardHasNoSpeed) {
  auto const model = models::vision_transformer_factory("small_vit", "", small_vit());
  SpeedOptions options;
  options.batch_sizes = {1, 4};
  options.round_seconds = 0.05;
  if (is_dry()) {
    EXPECT_THAT([&] { measure_speed(*device, model, {}, options); },
                testing::ThrowsMessage<InvalidArgument>(testing::HasSubstr("is a dry card")));
    return;
  }
  auto const speed = measure_speed(*device, model, {}, options);
  ASSERT_EQ(speed.sizes.size(), 2U);
  EXPECT_GT(*speed.sizes[1].training_rate(), *speed.sizes[0].training_rate());
  EXPECT_GT(*speed.sizes[1].inference_rate(), *speed.sizes[1].training_rate());
}

// ---- what only a real card computes ----

class RealCardRecipes : public CardTest {
 protected:
  void SetUp() override {
    CardTest::SetUp();
    if (is_dry()) { GTEST_SKIP() << "kernels of a dry card compute nothing"; }
  }
};

Tensors parameters_on_card() {
  torch::manual_seed(5);
  Tensors parameters;
  for (std::int64_t const size : {1, 1000, 70001, 3}) {
    parameters.push_back(torch::randn({size}).cuda().requires_grad_());
  }
  parameters.push_back(
      torch::randn({8, 4, 3, 3}).cuda().contiguous(torch::MemoryFormat::ChannelsLast).requires_grad_());
  return parameters;
}

TEST_F(RealCardRecipes, OptimizersUpdateAsLibTorchsOwn) {
  auto const trained = [](OptimizerKind kind, bool scaled) {
    auto parameters = parameters_on_card();
    auto const optimizer = models::make_optimizer(kind, parameters);
    GradientScaler scaler;
    for (int step = 0; step < 10; ++step) {
      torch::manual_seed(static_cast<std::uint64_t>(100 + step));
      auto const scale = scaled ? scaler.scale(torch::ones({}, torch::kCUDA)) : torch::ones({}, torch::kCUDA);
      for (auto& parameter : parameters) {
        parameter.mutable_grad() = torch::randn(parameter.sizes()).cuda() * scale;
        if (scaled && (step == 0 || step == 4)) {
          parameter.mutable_grad().view(-1)[0] = std::numeric_limits<float>::infinity();
        }
      }
      if (scaled) {
        scaler.step(*optimizer);
        scaler.update();
      } else {
        optimizer->step();
      }
    }
    if (scaled) { EXPECT_EQ(scaler.skipped_steps(), 2); }
    return parameters;
  };
  for (auto const scaled : {false, true}) {
    for (auto const& [ours, theirs] : {std::pair(OptimizerKind::adamw_foreach, OptimizerKind::adamw),
                                       std::pair(OptimizerKind::adamw_fused, OptimizerKind::adamw),
                                       std::pair(OptimizerKind::sgd_foreach, OptimizerKind::sgd),
                                       std::pair(OptimizerKind::sgd_fused, OptimizerKind::sgd)}) {
      auto const our_parameters = trained(ours, scaled);
      auto const their_parameters = trained(theirs, scaled);
      for (std::size_t i = 0; i < our_parameters.size(); ++i) {
        EXPECT_TRUE(torch::allclose(our_parameters[i], their_parameters[i], 3e-6, 3e-6))
            << to_string(ours) << ", parameter " << i << (scaled ? ", scaled" : "");
      }
    }
  }
}

TEST_F(RealCardRecipes, CheckpointsGiveTheSameBits) {
  auto net = torch::nn::Sequential(torch::nn::Linear(64, 256), torch::nn::GELU(), torch::nn::Dropout(0.4),
                                   torch::nn::Linear(256, 64));
  net->to(torch::kCUDA);
  auto const input = torch::randn({32, 64}, torch::kCUDA);
  auto const gradients = [&](bool checkpointed) {
    net->zero_grad();
    torch::manual_seed(3);
    auto const output = checkpointed ? checkpoint([&](Tensors const& inputs) { return net->forward(inputs[0]); },
                                                  {input}, net->parameters())
                                     : net->forward(input);
    output.square().sum().backward();
    Tensors found = {torch::rand({4}, torch::kCUDA)};
    for (auto const& parameter : net->parameters()) { found.push_back(parameter.grad().clone()); }
    return found;
  };
  auto const usual = gradients(false);
  auto const checkpointed = gradients(true);
  for (std::size_t i = 0; i < usual.size(); ++i) { EXPECT_TRUE(torch::equal(usual[i], checkpointed[i])) << i; }
}

TEST_F(RealCardRecipes, SkipAStepThatOverflowedAndHalveTheScale) {
  for (auto const& name : optimizer_names()) {
    SCOPED_TRACE(name);
    auto const kind = *parse_optimizer(name);
    auto const parameters = parameters_on_card();
    auto const optimizer = models::make_optimizer(kind, parameters);
    GradientScaler scaler;
    auto const iterate = [&](double factor) {
      optimizer->zero_grad();
      auto loss = torch::zeros({}, torch::kCUDA);
      for (auto const& parameter : parameters) { loss = loss + (parameter * factor).sum(); }
      scaler.scale(loss).backward();
      scaler.step(*optimizer);
      scaler.update();
    };
    auto const values = [&] {
      Tensors copies;
      for (auto const& parameter : parameters) { copies.push_back(parameter.detach().clone()); }
      return copies;
    };
    iterate(1);
    auto const before = values();
    iterate(std::numeric_limits<float>::infinity());
    EXPECT_EQ(scaler.current_scale(), 32768);
    EXPECT_EQ(scaler.skipped_steps(), 1);
    for (std::size_t i = 0; i < before.size(); ++i) { EXPECT_TRUE(torch::equal(parameters[i], before[i])) << i; }
    iterate(1);
    EXPECT_EQ(scaler.current_scale(), 32768);
    for (std::size_t i = 0; i < before.size(); ++i) { EXPECT_FALSE(torch::equal(parameters[i], before[i])) << i; }
  }
}

TEST_F(RealCardRecipes, TrainAsWellInLessPrecision) {
  auto const accuracy = [&](Recipe const& recipe) {
    torch::manual_seed(4);
    auto const labels = torch::randint(2, {512}, torch::kInt64);
    auto const points = (torch::randn({512, 8}) + 1.2 * (2 * labels - 1).unsqueeze(1)).cuda();
    auto const on_card = labels.cuda();
    auto net = torch::nn::Sequential(torch::nn::Linear(8, 32), torch::nn::GELU(), torch::nn::Linear(32, 2));
    net->to(torch::kCUDA);
    models::Learner learner;
    learner.module = net.ptr();
    learner.draw_inputs = [=](Trial const& trial) {
      auto const from = trial.step_index() * 64 % 512;
      return points.slice(0, from, from + 64);
    };
    learner.draw_targets = [=](Trial const& trial) {
      auto const from = trial.step_index() * 64 % 512;
      return on_card.slice(0, from, from + 64);
    };
    learner.loss = [net](torch::Tensor const& inputs, torch::Tensor const& targets) mutable {
      return torch::nn::functional::cross_entropy(net->forward(inputs), targets);
    };
    auto const prepared = models::prepare_training_step(std::move(learner), recipe);
    auto const window = device->open_trial();
    for (std::int64_t step = 0; step < 80; ++step) {
      Trial::Setting setting;
      setting.batch_size = 64;
      setting.device = device->torch_device();
      setting.step_index = step;
      Trial trial(setting, *window);
      prepared.step(trial);
    }
    torch::NoGradGuard const no_gradients;
    return (net->forward(points).argmax(1) == on_card).to(torch::kDouble).mean().item<double>();
  };
  auto const usual = accuracy({});
  EXPECT_GT(usual, 0.97);
  for (auto const precision : {Precision::tf32, Precision::bf16, Precision::fp16}) {
    for (auto const& name : optimizer_names()) {
      Recipe recipe;
      recipe.precision = precision;
      recipe.optimizer = *parse_optimizer(name);
      EXPECT_NEAR(accuracy(recipe), usual, 0.01) << name << " in " << to_string(precision);
    }
  }
}

}  // namespace
}  // namespace maxbatch::test
