#include <maxbatch/device/budgeted_cpu_device.hpp>
#include <maxbatch/training/max_batch_finder.hpp>

#include <torch/torch.h>

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <optional>

namespace maxbatch::test {
namespace {

using namespace maxbatch::literals;

/// A step that lets go of activations of other sizes than it asks for next, as training does.
struct Fragmenting {
  PreparedStep operator()(c10::Device device) const {
    auto const net = std::make_shared<torch::nn::SequentialImpl>(torch::nn::Linear(512, 1024), torch::nn::ReLU(),
                                                                 torch::nn::Linear(1024, 640), torch::nn::ReLU(),
                                                                 torch::nn::Linear(640, 512));
    auto const optimizer = std::make_shared<torch::optim::SGD>(net->parameters(), torch::optim::SGDOptions(0.1));
    PreparedStep prepared;
    prepared.state.preserve(std::static_pointer_cast<torch::nn::Module>(net));
    prepared.state.preserve(optimizer);
    prepared.step = [net, optimizer, device](Trial& trial) {
      optimizer->zero_grad();
      auto const inputs = torch::randn({64 * trial.batch_size(), 512}, device);
      auto const loss =
          trial.phase(Phase::forward, [&] { return torch::mse_loss(net->forward(inputs), inputs.detach()); });
      trial.phase(Phase::backward, [&] { loss.backward(); });
      trial.phase(Phase::optimizer, [&] { optimizer->step(); });
    };
    return prepared;
  }
};

class CachingCpuSearch : public ::testing::Test {
 protected:
  ~CachingCpuSearch() override { device->account_with(std::nullopt); }

  std::int64_t largest() {
    auto const result = MaxBatchFinder(device).find(Fragmenting{});
    EXPECT_EQ(result.search.proof, Proof::bracketed);
    last = result;
    return result.batch_size().value_or(0);
  }
  /// Whether one size runs, asked without a search.
  bool fits(std::int64_t size) {
    FinderOptions options;
    options.search.minimum = size;
    options.search.maximum = size;
    return MaxBatchFinder(device, options).find(Fragmenting{}).batch_size().has_value();
  }

  std::shared_ptr<BudgetedCpuDevice> const device = budgeted_cpu_device(64_MiB);
  FinderResult last;
};

TEST_F(CachingCpuSearch, FindsLessRoomThanBytesAloneWouldHave) {
  auto const by_bytes = largest();
  device->account_with(AllocatorSettings{});
  auto const by_segments = largest();
  EXPECT_LT(by_segments, by_bytes);
  auto const* const answer = last.search.answer();
  ASSERT_NE(answer, nullptr);
  EXPECT_EQ(answer->outcome.peaks.reserved.count % (2 << 20), 0) << "whole segments";
  EXPECT_LT(answer->outcome.peaks.allocated, answer->outcome.peaks.reserved);
  auto const* const next = last.search.next_failure();
  ASSERT_NE(next, nullptr);
  ASSERT_TRUE(next->outcome.failed_request);
  EXPECT_TRUE(next->outcome.failed_request->segment);
}

/// Sizes below it may fail: with a flush at another moment other gaps are left, as on a card.
TEST_F(CachingCpuSearch, FindsABoundaryThatIsOneWhenAskedAlone) {
  device->account_with(AllocatorSettings{});
  for (auto const budget : {40_MiB, 64_MiB}) {
    device->set_budget(budget);
    auto const found = largest();
    ASSERT_GT(found, 1);
    EXPECT_TRUE(fits(found)) << found << " under " << to_string(budget);
    EXPECT_FALSE(fits(found + 1)) << found + 1 << " under " << to_string(budget);
  }
}

}  // namespace
}  // namespace maxbatch::test
