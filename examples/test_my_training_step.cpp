/// A unit test of one's own training step: does it still fit, and does it leak? No GPU, no mock: real kernels on the CPU.
#include <maxbatch/gtest.hpp>

#include <torch/torch.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>

namespace {

using namespace maxbatch::literals;

auto make_step(torch::Device device) {
  torch::nn::Sequential model(torch::nn::Linear(1024, 1024), torch::nn::ReLU(), torch::nn::Linear(1024, 10));
  model->to(device);
  auto const optimizer = std::make_shared<torch::optim::AdamW>(model->parameters());
  return [=](maxbatch::Trial& trial) mutable {
    auto const inputs = torch::randn({trial.batch_size(), 1024}, trial.device());
    optimizer->zero_grad();
    auto const loss = trial.phase(maxbatch::Phase::forward, [&] { return model->forward(inputs).square().mean(); });
    trial.phase(maxbatch::Phase::backward, [&] { loss.backward(); });
    trial.phase(maxbatch::Phase::optimizer, [&] { optimizer->step(); });
  };
}

// [test]
TEST(MyTrainingStep, StillFitsAndLeaksNothing) {
  EXPECT_THAT(maxbatch::StepAt(make_step, /*batch_size=*/64), maxbatch::FitsIn(32_MiB));
  EXPECT_THAT(maxbatch::StepAt(make_step, 64), AllOf(maxbatch::PeakAtMost(25_MiB), maxbatch::LeaksNothing()));
}

TEST(MyTrainingStep, OnALiveModel) {
  torch::nn::Linear model(1024, 10);
  torch::optim::SGD optimizer(model->parameters(), /*lr=*/0.1);
  auto const step = [&](std::int64_t batch_size) {
    optimizer.zero_grad();
    model->forward(torch::randn({batch_size, 1024})).square().mean().backward();
    optimizer.step();
  };
  EXPECT_THAT(maxbatch::StepAt(step, 64).preserve(model).preserve(optimizer), maxbatch::FitsIn(1_MiB));
}
// [/test]

}  // namespace
