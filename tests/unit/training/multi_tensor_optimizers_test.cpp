// Our multi-tensor optimizers beside LibTorch's own.
#include <maxbatch/search/errors.hpp>
#include <maxbatch/training/gradient_scaler.hpp>
#include <maxbatch/training/multi_tensor_optimizers.hpp>

#include <torch/torch.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

namespace maxbatch::test {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;
using torch::optim::AdamWOptions;
using torch::optim::Optimizer;
using torch::optim::OptimizerParamGroup;
using torch::optim::SGDOptions;
using Tensors = std::vector<at::Tensor>;
using Make = std::function<std::shared_ptr<Optimizer>(std::vector<OptimizerParamGroup>)>;

template <typename Kind, typename Options>
Make maker(Options options) {
  return [options](std::vector<OptimizerParamGroup> const& groups) { return std::make_shared<Kind>(groups, options); };
}

struct Pair {
  char const* name;
  Make ours;
  Make theirs;
};

void PrintTo(Pair const& pair, std::ostream* out) { *out << pair.name; }

std::vector<Pair> pairs() {
  using torch::optim::AdamW;
  using torch::optim::SGD;
  std::vector<Pair> all;
  auto const add_adamw = [&](char const* foreach_name, char const* fused_name, AdamWOptions const& options) {
    all.push_back({foreach_name, maker<ForeachAdamW>(options), maker<AdamW>(options)});
    all.push_back({fused_name, maker<FusedAdamW>(options), maker<AdamW>(options)});
  };
  auto const add_sgd = [&](char const* foreach_name, char const* fused_name, SGDOptions const& options) {
    all.push_back({foreach_name, maker<ForeachSGD>(options), maker<SGD>(options)});
    all.push_back({fused_name, maker<FusedSGD>(options), maker<SGD>(options)});
  };
  add_adamw("ForeachAdamW", "FusedAdamW", AdamWOptions(1e-2));
  add_adamw("ForeachAdamWWithoutDecay", "FusedAdamWWithoutDecay",
            AdamWOptions(1e-2).weight_decay(0).betas({0.8, 0.9}).eps(1e-4));
  add_adamw("ForeachAdamWAmsgrad", "FusedAdamWAmsgrad", AdamWOptions(1e-2).weight_decay(0.1).amsgrad(true));
  add_sgd("ForeachSgd", "FusedSgd", SGDOptions(0.1));
  add_sgd("ForeachSgdMomentum", "FusedSgdMomentum", SGDOptions(0.1).momentum(0.9));
  add_sgd("ForeachSgdNesterov", "FusedSgdNesterov", SGDOptions(0.1).momentum(0.9).nesterov(true).weight_decay(0.01));
  add_sgd("ForeachSgdDampening", "FusedSgdDampening", SGDOptions(0.1).momentum(0.9).dampening(0.3).weight_decay(0.1));
  return all;
}

/// Of several sizes: one element, none, more than one chunk of a kernel, channels last.
Tensors some_parameters(at::ScalarType type) {
  torch::manual_seed(5);
  auto const options = at::TensorOptions().dtype(type);
  Tensors parameters = {torch::randn({7, 5}, options), torch::randn({}, options), torch::randn({0, 3}, options),
                        torch::randn({70001}, options),
                        torch::randn({4, 3, 2, 2}, options).contiguous(at::MemoryFormat::ChannelsLast)};
  for (auto& parameter : parameters) { parameter.requires_grad_(); }
  return parameters;
}

/// The first three in one group, the others in another with its own learning rate.
std::shared_ptr<Optimizer> over(Make const& make, Tensors const& parameters) {
  auto optimizer = make({OptimizerParamGroup(Tensors(parameters.begin(), parameters.begin() + 3)),
                         OptimizerParamGroup(Tensors(parameters.begin() + 3, parameters.end()))});
  optimizer->param_groups()[1].options().set_lr(3e-3);
  return optimizer;
}

/// The last parameter has no gradient in the first two steps and in the fifth; gradients of channels-last parameters are
/// laid out otherwise in even steps.
void give_gradients(Tensors& parameters, int step) {
  torch::manual_seed(static_cast<std::uint64_t>(100 + step));
  for (auto& parameter : parameters) {
    auto gradient = torch::randn(parameter.sizes(), parameter.options().requires_grad(false));
    if (step % 2 == 1) { gradient = at::empty_like(parameter).copy_(gradient); }
    parameter.mutable_grad() = gradient.detach();
  }
  if (step < 2 || step == 4) { parameters.back().mutable_grad() = at::Tensor(); }
}

void expect_equal(Tensors const& ours, Tensors const& theirs, double tolerance) {
  for (std::size_t i = 0; i < ours.size(); ++i) {
    EXPECT_TRUE(at::allclose(ours[i], theirs[i], tolerance, tolerance))
        << "parameter " << i << " differs by " << (ours[i] - theirs[i]).abs().max().item<double>();
  }
}

class MultiTensorOptimizer : public testing::TestWithParam<Pair> {};

TEST_P(MultiTensorOptimizer, UpdatesAsLibTorchsOwnDoes) {
  // In float one rounding is 6e-8 of a value; values here are a few units, updates ten a parameter.
  for (auto const& [type, tolerance] : {std::pair(at::kDouble, 1e-13), std::pair(at::kFloat, 3e-6)}) {
    auto ours = some_parameters(type);
    auto theirs = some_parameters(type);
    auto const start = ours[0].detach().clone();
    auto const our_optimizer = over(GetParam().ours, ours);
    auto const their_optimizer = over(GetParam().theirs, theirs);
    for (int step = 0; step < 10; ++step) {
      give_gradients(ours, step);
      give_gradients(theirs, step);
      auto const before = ours[3].grad().clone();
      our_optimizer->step();
      their_optimizer->step();
      EXPECT_TRUE(at::equal(ours[3].grad(), before)) << "a gradient was changed";
    }
    EXPECT_GT((ours[0] - start).abs().max().item<double>(), 1e-3);
    expect_equal(ours, theirs, tolerance);
  }
}

TEST_P(MultiTensorOptimizer, ReadsAndWritesLibTorchsFiles) {
  auto const saved = [](Optimizer const& optimizer) {
    std::stringstream stream;
    torch::serialize::OutputArchive archive;
    optimizer.save(archive);
    archive.save_to(stream);
    return stream;
  };
  auto const load = [](Optimizer& optimizer, std::stringstream stream) {
    torch::serialize::InputArchive archive;
    archive.load_from(stream);
    optimizer.load(archive);
  };
  auto const run = [](Optimizer& optimizer, Tensors& parameters, int from, int to) {
    for (int step = from; step < to; ++step) {
      give_gradients(parameters, step);
      optimizer.step();
    }
  };
  auto straight = some_parameters(at::kDouble);
  auto const theirs = over(GetParam().theirs, straight);
  run(*theirs, straight, 0, 9);

  auto changing = some_parameters(at::kDouble);
  auto const first = over(GetParam().ours, changing);
  run(*first, changing, 0, 3);
  auto const second = over(GetParam().theirs, changing);
  load(*second, saved(*first));
  run(*second, changing, 3, 6);
  auto const third = over(GetParam().ours, changing);
  load(*third, saved(*second));
  run(*third, changing, 6, 9);
  expect_equal(changing, straight, 1e-13);
}

/// One run with a loss scale that overflows now and then, of an optimizer that takes it and of one that does not.
TEST_P(MultiTensorOptimizer, SkipsTheSameStepsUnderALossScale) {
  auto const trained = [](Make const& make, std::int64_t& skipped) {
    auto parameters = some_parameters(at::kFloat);
    auto const optimizer = over(make, parameters);
    GradientScalerOptions options;
    options.growth_interval = 3;
    GradientScaler scaler(options);
    for (int step = 0; step < 12; ++step) {
      auto const scale = scaler.scale(torch::ones({}));
      give_gradients(parameters, step);
      for (auto const& parameter : parameters) {
        if (parameter.grad().defined()) { parameter.mutable_grad().mul_(scale); }
      }
      if (step == 0 || step == 5 || step == 6) {
        parameters[3].mutable_grad()[70000] = std::numeric_limits<float>::infinity();
      }
      if (step == 8) { parameters[0].mutable_grad()[0][1] = std::numeric_limits<float>::quiet_NaN(); }
      if (step == 9) { scaler.unscale(*optimizer); }  // as one who clips
      scaler.step(*optimizer);
      scaler.update();
    }
    skipped = scaler.skipped_steps();
    return parameters;
  };
  std::int64_t our_skipped = 0;
  std::int64_t their_skipped = 0;
  auto const ours = trained(GetParam().ours, our_skipped);
  auto const theirs = trained(GetParam().theirs, their_skipped);
  EXPECT_EQ(our_skipped, 4);
  EXPECT_EQ(their_skipped, 4);
  expect_equal(ours, theirs, 3e-6);
}

INSTANTIATE_TEST_SUITE_P(All, MultiTensorOptimizer, testing::ValuesIn(pairs()),
                         [](auto const& pair) { return std::string(pair.param.name); });

TEST(FusedAdamW, CountsStepsThatWereTakenOnceItIsSettled) {
  auto const parameter = torch::ones({3}, torch::requires_grad());
  FusedAdamW optimizer(Tensors{parameter}, AdamWOptions(0.1));
  auto const steps = [&] {
    return static_cast<torch::optim::AdamWParamState&>(*optimizer.state().begin()->second).step();
  };
  auto const step = [&](float non_finite) {
    parameter.mutable_grad() = torch::ones({3});
    optimizer.scale_next_step(at::Tensor(), torch::tensor(non_finite));
    optimizer.step();
  };
  step(0);
  step(1);
  step(0);
  EXPECT_EQ(steps(), 3);
  optimizer.settle();
  EXPECT_EQ(steps(), 2);
  optimizer.settle();
  EXPECT_EQ(steps(), 2);
}

TEST(MultiTensorOptimizers, RefuseGradientsTheyWouldMisread) {
  auto const parameter = torch::ones({3}, torch::requires_grad());
  for (auto const& make : {maker<ForeachAdamW>(AdamWOptions(0.1)), maker<FusedAdamW>(AdamWOptions(0.1))}) {
    auto const optimizer = make({OptimizerParamGroup(Tensors{parameter})});
    parameter.mutable_grad() = torch::ones({4});
    EXPECT_THAT([&] { optimizer->step(); },
                ThrowsMessage<InvalidArgument>(HasSubstr("shape [3] and type Float has a gradient of shape [4]")));
    parameter.mutable_grad() = torch::ones({3}).to_sparse();
    EXPECT_THAT([&] { optimizer->step(); }, ThrowsMessage<InvalidArgument>(HasSubstr("dense")));
  }
}

}  // namespace
}  // namespace maxbatch::test
