#include "state_guard_small_net.hpp"
#include <maxbatch/training/state_guard.hpp>

#include <torch/torch.h>

#include <gtest/gtest.h>

#include <memory>
#include <vector>

namespace user {

/// State that maxbatch knows nothing of.
struct LossScale {
  double scale = 65536;
};

class LossScaleGuard : public maxbatch::StateGuard {
 public:
  explicit LossScaleGuard(LossScale& live) : live_(live), before_(live.scale) {}
  void restore_structure() override {}
  void restore_values() override { live_.scale = before_; }
  std::vector<NamedTensor> resident_tensors() const override { return {}; }

 private:
  LossScale& live_;
  double before_;
};

std::unique_ptr<maxbatch::StateGuard> make_state_guard(LossScale& scale) {
  return std::make_unique<LossScaleGuard>(scale);
}
std::unique_ptr<maxbatch::StateGuard> make_state_guard(std::shared_ptr<LossScale> const& scale) {
  return std::make_unique<LossScaleGuard>(*scale);
}

/// An optimizer of the user's own: its guard must win over the one for every optimizer.
struct Lion : torch::optim::SGD {
  using SGD::SGD;
  int calls = 3;
};

class LionGuard : public maxbatch::StateGuard {
 public:
  explicit LionGuard(std::shared_ptr<Lion> lion) : lion_(std::move(lion)), before_(lion_->calls) {}
  void restore_structure() override { lion_->calls = before_; }
  void restore_values() override {}
  std::vector<NamedTensor> resident_tensors() const override { return {}; }

 private:
  std::shared_ptr<Lion> lion_;
  int before_;
};

std::unique_ptr<maxbatch::StateGuard> make_state_guard(std::shared_ptr<Lion> const& lion) {
  return std::make_unique<LionGuard>(lion);
}

}  // namespace user

namespace maxbatch::test {
namespace {

/// As `preserve` calls it: unqualified, from a template.
template <typename State>
std::unique_ptr<StateGuard> guard_of(State& state) {
  return make_state_guard(state);
}

TEST(CustomStateGuard, IsFoundInTheNamespaceOfItsType) {
  user::LossScale scale;
  auto const shared = std::make_shared<user::LossScale>();
  auto const guard = guard_of(scale);
  auto const shared_guard = guard_of(shared);
  scale.scale = shared->scale = 1;
  guard->restore_values();
  shared_guard->restore_values();
  EXPECT_EQ(scale.scale, 65536);
  EXPECT_EQ(shared->scale, 65536);
}

TEST(CustomStateGuard, WinsOverTheGuardOfTheBaseClass) {
  auto const lion = std::make_shared<user::Lion>(std::vector{torch::ones(2)}, torch::optim::SGDOptions(0.1));
  auto const guard = guard_of(lion);
  lion->calls = 9;
  guard->restore_structure();
  EXPECT_EQ(lion->calls, 3);
}

TEST(CustomStateGuard, LeavesTheBuiltInOnesReachable) {
  auto net = make_small_net();
  auto const pointer = net.ptr();
  auto const tensor = torch::ones(3);
  auto const generator = at::detail::createCPUGenerator();
  auto const optimizer = std::make_shared<torch::optim::SGD>(net->parameters(), 0.1);
  EXPECT_EQ(guard_of(net)->resident_tensors().size(), 9U);
  EXPECT_EQ(guard_of(*net)->resident_tensors().size(), 9U);
  EXPECT_EQ(guard_of(pointer)->resident_tensors().size(), 9U);
  EXPECT_EQ(guard_of(tensor)->resident_tensors().size(), 1U);
  EXPECT_EQ(guard_of(generator)->resident_tensors().size(), 0U);
  EXPECT_EQ(guard_of(optimizer)->resident_tensors().size(), 0U);
  EXPECT_EQ(guard_of(*optimizer)->resident_tensors().size(), 0U);
}

}  // namespace
}  // namespace maxbatch::test
