#include "state_guard_small_net.hpp"
#include <maxbatch/search/errors.hpp>
#include <maxbatch/training/gradient_scaler.hpp>
#include <maxbatch/training/multi_tensor_optimizers.hpp>

#include <torch/torch.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <memory>
#include <stdexcept>
#include <vector>

namespace maxbatch::test {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

constexpr auto kInfinity = std::numeric_limits<float>::infinity();

class GradientScalerTest : public testing::Test {
 protected:
  /// One iteration whose gradient is `gradient` after unscaling. Returns what `step` says.
  std::optional<bool> iterate(torch::optim::Optimizer& optimizer, float gradient) {
    auto const scale = scaler.scale(torch::ones({}));
    weight.mutable_grad() = torch::full({2}, gradient) * scale;
    auto const updated = scaler.step(optimizer);
    scaler.update();
    return updated;
  }

  at::Tensor weight = torch::ones({2}, torch::requires_grad());
  torch::optim::SGD sgd{std::vector{weight}, torch::optim::SGDOptions(0.5)};
  FusedSGD fused{std::vector{weight}, torch::optim::SGDOptions(0.5)};
  GradientScaler scaler{[] {
    GradientScalerOptions options;
    options.growth_interval = 3;
    return options;
  }()};
};

TEST_F(GradientScalerTest, HasPythonsDefaults) {
  GradientScaler const usual;
  EXPECT_EQ(usual.current_scale(), 65536);
  EXPECT_EQ(usual.options().growth_factor, 2);
  EXPECT_EQ(usual.options().backoff_factor, 0.5);
  EXPECT_EQ(usual.options().growth_interval, 2000);
}

TEST_F(GradientScalerTest, ScalesTheLossAndUnscalesTheGradients) {
  auto const loss = (weight * 3).sum();
  EXPECT_EQ(scaler.scale(loss).item<float>(), 6 * 65536);
  scaler.scale(loss).backward();
  EXPECT_EQ(weight.grad()[0].item<float>(), 3 * 65536);
  scaler.unscale(sgd);
  EXPECT_EQ(weight.grad()[0].item<float>(), 3);
  EXPECT_EQ(scaler.step(sgd), true);
  EXPECT_EQ(weight[0].item<float>(), 1 - 0.5 * 3);
}

TEST_F(GradientScalerTest, SkipsAStepThatOverflowedAndHalvesTheScale) {
  EXPECT_EQ(iterate(sgd, 1), true);
  auto const before = weight.detach().clone();
  EXPECT_EQ(iterate(sgd, kInfinity), false);
  EXPECT_TRUE(at::equal(weight, before));
  EXPECT_EQ(scaler.current_scale(), 32768);
  EXPECT_EQ(scaler.skipped_steps(), 1);
  EXPECT_EQ(scaler.growth_tracker(), 0);
  EXPECT_EQ(iterate(sgd, std::numeric_limits<float>::quiet_NaN()), false);
  EXPECT_EQ(scaler.current_scale(), 16384);
  EXPECT_EQ(scaler.skipped_steps(), 2);
  EXPECT_EQ(iterate(sgd, 1), true);
  EXPECT_TRUE(at::equal(weight, before - 0.5));
}

TEST_F(GradientScalerTest, LeavesItToAnOptimizerThatTakesTheScale) {
  EXPECT_EQ(iterate(fused, 1), std::nullopt);
  EXPECT_EQ(weight[0].item<float>(), 0.5);
  EXPECT_EQ(weight.grad()[0].item<float>(), 1) << "the gradient is left unscaled";
  EXPECT_EQ(iterate(fused, kInfinity), std::nullopt);
  EXPECT_EQ(weight[0].item<float>(), 0.5);
  EXPECT_EQ(scaler.current_scale(), 32768);
  EXPECT_EQ(scaler.skipped_steps(), 1);
}

TEST_F(GradientScalerTest, GrowsAfterEnoughStepsInARow) {
  iterate(sgd, 1);
  iterate(sgd, 1);
  EXPECT_EQ(scaler.current_scale(), 65536);
  EXPECT_EQ(scaler.growth_tracker(), 2);
  iterate(sgd, 1);
  EXPECT_EQ(scaler.current_scale(), 131072);
  EXPECT_EQ(scaler.growth_tracker(), 0);
}

TEST_F(GradientScalerTest, SkipsOneOfTwoOptimizers) {
  auto const other = torch::ones({2}, torch::requires_grad());
  torch::optim::SGD second(std::vector{other}, torch::optim::SGDOptions(0.5));
  auto const scale = scaler.scale(torch::ones({}));
  weight.mutable_grad() = torch::full({2}, kInfinity);
  other.mutable_grad() = torch::ones({2}) * scale;
  EXPECT_EQ(scaler.step(sgd), false);
  EXPECT_EQ(scaler.step(second), true);
  scaler.update();
  EXPECT_EQ(scaler.skipped_steps(), 1);
  EXPECT_EQ(scaler.current_scale(), 32768);
  EXPECT_EQ(other[0].item<float>(), 0.5);
}

TEST_F(GradientScalerTest, RefusesCallsInAnotherOrder) {
  EXPECT_THAT([&] { scaler.unscale(sgd); }, ThrowsMessage<std::logic_error>(HasSubstr("has scaled no loss yet")));
  EXPECT_THAT([&] { scaler.update(); }, ThrowsMessage<std::logic_error>(HasSubstr("nothing to update from")));
  scaler.scale(weight.sum()).backward();
  scaler.unscale(sgd);
  EXPECT_THAT([&] { scaler.unscale(sgd); }, ThrowsMessage<std::logic_error>(HasSubstr("unscaled this optimizer's")));
  scaler.step(sgd);
  EXPECT_THAT([&] { scaler.step(sgd); }, ThrowsMessage<std::logic_error>(HasSubstr("has stepped this optimizer")));
  scaler.update();
  auto const half = torch::ones({2}, torch::dtype(at::kHalf).requires_grad(true));
  torch::optim::SGD of_half(std::vector{half}, torch::optim::SGDOptions(0.5));
  half.mutable_grad() = torch::ones({2}, at::kHalf);
  EXPECT_THAT([&] { scaler.step(of_half); }, ThrowsMessage<InvalidArgument>(HasSubstr("gradients in fp16")));
}

TEST_F(GradientScalerTest, RefusesOptionsThatCouldNotWork) {
  GradientScalerOptions growth;
  growth.growth_factor = 1;
  EXPECT_THAT([&] { GradientScaler{growth}; }, ThrowsMessage<InvalidArgument>(HasSubstr("growth_factor is 1.0")));
  GradientScalerOptions backoff;
  backoff.backoff_factor = 1.5;
  EXPECT_THAT([&] { GradientScaler{backoff}; }, ThrowsMessage<InvalidArgument>(HasSubstr("between 0 and 1")));
  GradientScalerOptions interval;
  interval.growth_interval = 0;
  EXPECT_THAT([&] { GradientScaler{interval}; }, ThrowsMessage<InvalidArgument>(HasSubstr("1 or more steps")));
}

TEST_F(GradientScalerTest, IsPutBackByItsGuard) {
  auto const guard = make_state_guard(scaler);
  iterate(sgd, kInfinity);
  guard->restore_structure();
  EXPECT_EQ(scaler.current_scale(), 65536);
  EXPECT_EQ(scaler.skipped_steps(), 0);

  iterate(sgd, kInfinity);
  iterate(sgd, 1);
  auto const later = make_state_guard(scaler);
  EXPECT_EQ(later->resident_tensors().size(), 3U);
  scaler.scale(weight.sum());
  scaler.unscale(sgd);  // a trial that ended in the middle of an iteration
  scaler.step(sgd);
  for (int i = 0; i < 4; ++i) {
    later->restore_structure();
    iterate(sgd, kInfinity);
  }
  later->restore_values();
  EXPECT_EQ(scaler.current_scale(), 32768);
  EXPECT_EQ(scaler.skipped_steps(), 1);
  EXPECT_EQ(scaler.growth_tracker(), 1);
}

}  // namespace
}  // namespace maxbatch::test
