#include "state_guard_small_net.hpp"
#include "support/state_hash.hpp"
#include <maxbatch/training/state_guard.hpp>

#include <ATen/autocast_mode.h>
#include <torch/torch.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace maxbatch::test {
namespace {

using at::Float32Backend;
using at::Float32Op;
using at::Float32Precision;
using ::testing::IsEmpty;
using ::testing::Not;

at::Context& context() { return at::globalContext(); }
StateHash process() { return std::move(StateHash().add_process()); }

struct Switch {
  char const* name;
  std::function<void()> flip;
};

/// A thing that a step may do to the process and leave behind, for instance because it failed half-way.
std::vector<Switch> all_switches() {
  return {
      {"GradMode", [] { at::GradMode::set_enabled(false); }},
      {"AutocastCpu", [] { at::autocast::set_autocast_enabled(at::kCPU, true); }},
      {"AutocastCuda", [] { at::autocast::set_autocast_enabled(at::kCUDA, true); }},
      {"AutocastCpuType", [] { at::autocast::set_autocast_dtype(at::kCPU, at::kHalf); }},
      {"AutocastCudaType", [] { at::autocast::set_autocast_dtype(at::kCUDA, at::kBFloat16); }},
      {"AutocastCache", [] { at::autocast::set_autocast_cache_enabled(false); }},
      {"AutocastNesting", [] { at::autocast::increment_nesting(), at::autocast::increment_nesting(); }},
      {"AnomalyMode", [] { torch::autograd::AnomalyMode::set_enabled(true, false); }},
      {"AnomalyModeNanCheck", [] { torch::autograd::AnomalyMode::set_enabled(false, false); }},
      {"DefaultDtype", [] { c10::set_default_dtype(caffe2::TypeMeta::Make<double>()); }},
      {"CudnnEnabled", [] { context().setUserEnabledCuDNN(false); }},
      {"CudnnBenchmark", [] { context().setBenchmarkCuDNN(true); }},
      {"CudnnBenchmarkLimit", [] { context().setBenchmarkLimitCuDNN(3); }},
      {"CudnnDeterministic", [] { context().setDeterministicCuDNN(true); }},
      {"OneDnnEnabled", [] { context().setUserEnabledMkldnn(false); }},
      {"OneDnnDeterministic", [] { context().setDeterministicMkldnn(true); }},
      {"Nnpack", [] { context().setUserEnabledNNPACK(false); }},
      {"Deterministic", [] { context().setDeterministicAlgorithms(true, false); }},
      {"DeterministicWarnOnly", [] { context().setDeterministicAlgorithms(true, true); }},
      {"DeterministicFill", [] { context().setDeterministicFillUninitializedMemory(false); }},
      {"AttentionFlash", [] { context().setSDPUseFlash(false); }},
      {"AttentionMemoryEfficient", [] { context().setSDPUseMemEfficient(false); }},
      {"AttentionMath", [] { context().setSDPUseMath(false); }},
      {"AttentionCudnn", [] { context().setSDPUseCuDNN(false); }},
      {"AttentionOrder",
       [] {
         context().setSDPPriorityOrder({2, 1, 0, 3, 4});
       }},
      {"Fp16Reduction", [] { context().setAllowFP16ReductionCuBLAS(false, false); }},
      {"Bf16Reduction", [] { context().setAllowBF16ReductionCuBLAS(false, true); }},
      {"Fp16Accumulation", [] { context().setAllowFP16AccumulationCuBLAS(true); }},
      {"Tf32Cublas", [] { context().setAllowTF32CuBLAS(true); }},
      {"Tf32Cudnn", [] { context().setAllowTF32CuDNN(false); }},
      {"MatmulPrecision", [] { context().setFloat32MatmulPrecision("medium"); }},
      {"PrecisionOfAll",
       [] { context().setFloat32Precision(Float32Backend::GENERIC, Float32Op::ALL, Float32Precision::TF32); }},
      {"PrecisionOfCuda",
       [] { context().setFloat32Precision(Float32Backend::CUDA, Float32Op::ALL, Float32Precision::TF32); }},
      {"PrecisionOfCudaConvolutions",
       [] { context().setFloat32Precision(Float32Backend::CUDA, Float32Op::CONV, Float32Precision::IEEE); }},
      {"PrecisionOfOneDnnProducts",
       [] { context().setFloat32Precision(Float32Backend::MKLDNN, Float32Op::MATMUL, Float32Precision::BF16); }},
      {"RandomNumbers", [] { torch::rand(5); }},
      {"RandomNormalPair", [] { torch::randn(1); }},
      {"Seed", [] { torch::manual_seed(123); }},
  };
}

/// Leaves the process as it was, and does not take the guard's word for it.
class GlobalState : public ::testing::Test {
 protected:
  GlobalState() { torch::manual_seed(3); }
  void TearDown() override {
    outermost_->restore_values();
    EXPECT_THAT(at_start_.differences(process()), IsEmpty());
  }

  StateHash at_start_ = process();
  std::unique_ptr<StateGuard> outermost_ = make_global_state_guard();
};

TEST_F(GlobalState, EverySwitchComesBack) {
  for (auto const& [name, flip] : all_switches()) {
    SCOPED_TRACE(name);
    auto const before = process();
    auto const guard = make_global_state_guard();
    EXPECT_THAT(before.differences(process()), IsEmpty()) << "making a guard changes something";
    flip();
    EXPECT_THAT(before.differences(process()), Not(IsEmpty())) << "the hash does not see it";
    guard->restore_structure();
    EXPECT_THAT(before.differences(process()), IsEmpty());
  }
}

TEST_F(GlobalState, EverySwitchComesBackToItsOtherPosition) {
  for (auto const& [name, flip] : all_switches()) {
    SCOPED_TRACE(name);
    flip();
    auto const flipped = process();
    auto const guard = make_global_state_guard();
    EXPECT_THAT(flipped.differences(process()), IsEmpty()) << "making a guard changes something";
    outermost_->restore_structure();
    EXPECT_THAT(at_start_.differences(process()), IsEmpty());
    guard->restore_values();
    EXPECT_THAT(flipped.differences(process()), IsEmpty());
    outermost_->restore_structure();
  }
}

TEST_F(GlobalState, PrecisionSwitchesComeBackEvenWhereTheOldAndTheNewOnesContradictEachOther) {
  context().setFloat32MatmulPrecision("high");
  context().setAllowTF32CuDNN(false);
  context().setFloat32Precision(Float32Backend::CUDA, Float32Op::MATMUL, Float32Precision::IEEE);
  context().setFloat32Precision(Float32Backend::CUDA, Float32Op::CONV, Float32Precision::TF32);
  context().setFloat32Precision(Float32Backend::CUDA, Float32Op::RNN, Float32Precision::NONE);
  context().setFloat32Precision(Float32Backend::GENERIC, Float32Op::ALL, Float32Precision::BF16);
  ASSERT_THROW(context().allowTF32CuDNN(), c10::Error);
  auto const before = process();
  auto const guard = make_global_state_guard();
  EXPECT_THAT(before.differences(process()), IsEmpty());
  outermost_->restore_structure();
  guard->restore_structure();
  EXPECT_THAT(before.differences(process()), IsEmpty());
  // What falls back must fall back again, to be told apart from a switch that says the same by itself.
  context().setFloat32Precision(Float32Backend::GENERIC, Float32Op::ALL, Float32Precision::TF32);
  EXPECT_EQ(context().float32Precision(Float32Backend::CUDA, Float32Op::RNN), Float32Precision::TF32);
  EXPECT_EQ(context().float32Precision(Float32Backend::MKLDNN, Float32Op::CONV), Float32Precision::TF32);
  EXPECT_EQ(context().float32Precision(Float32Backend::CUDA, Float32Op::MATMUL), Float32Precision::IEEE);
}

TEST_F(GlobalState, IsReadInSilence) {
  struct Loud : c10::WarningHandler {
    void process(c10::Warning const& warning) override { texts.push_back(warning.msg()); }
    std::vector<std::string> texts;
  } loud;
  c10::WarningUtils::WarnAlways const always;
  c10::WarningUtils::WarningHandlerGuard const guard_of_handler(&loud);
  auto const guard = make_global_state_guard();
  context().setFloat32Precision(Float32Backend::CUDA, Float32Op::RNN, Float32Precision::IEEE);
  guard->restore_values();
  EXPECT_THAT(loud.texts, IsEmpty());
}

TEST_F(GlobalState, AutocastsCacheHoldsNoWeightsOfATrial) {
  auto const guard = make_global_state_guard();
  auto const weight = torch::full({4, 4}, 2.0, torch::requires_grad());
  auto const product = [&weight] {
    at::autocast::increment_nesting();
    at::autocast::set_autocast_enabled(at::kCPU, true);
    return torch::ones({1, 4}).mm(weight);
  };
  EXPECT_EQ(product()[0][0].item<float>(), 8);
  guard->restore_structure();
  weight.data().fill_(3);
  EXPECT_EQ(product()[0][0].item<float>(), 12);
  guard->restore_structure();
}

TEST(GeneratorStateGuard, RepeatsTheNextRandomNumbers) {
  auto generator = at::detail::createCPUGenerator(5);
  auto const draw = [&generator] { return torch::randn({3}, generator); };
  draw();
  auto const guard = make_state_guard(generator);
  auto const first = draw();
  guard->restore_structure();
  EXPECT_TRUE(draw().equal(first));
  generator.set_current_seed(9);
  guard->restore_values();
  EXPECT_TRUE(draw().equal(first));
}

TEST_F(GlobalState, RepeatsADropoutMask) {
  torch::nn::Dropout dropout(0.5);
  auto const guard = make_global_state_guard();
  auto const first = dropout(torch::ones(50));
  guard->restore_structure();
  EXPECT_TRUE(dropout(torch::ones(50)).equal(first));
  guard->restore_structure();
}

}  // namespace
}  // namespace maxbatch::test
