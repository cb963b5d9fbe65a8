#include "state_guard_small_net.hpp"
#include "support/state_hash.hpp"
#include <maxbatch/training/state_guard.hpp>

#include <ATen/autocast_mode.h>
#include <torch/torch.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
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

/// Another thread, which does as it is told and is waited for.
class OtherThread {
 public:
  void operator()(std::function<void()> const& work) {
    std::promise<void> done;
    {
      std::lock_guard<std::mutex> const lock(mutex_);
      work_ = [&] { work(), done.set_value(); };
    }
    arrived_.notify_one();
    done.get_future().wait();
  }
  ~OtherThread() {
    (*this)([this] { ends_ = true; });
    thread_.join();
  }

 private:
  void run() {
    while (!ends_) {
      std::unique_lock<std::mutex> lock(mutex_);
      arrived_.wait(lock, [this] { return static_cast<bool>(work_); });
      auto const work = std::exchange(work_, nullptr);
      lock.unlock();
      work();
    }
  }

  std::mutex mutex_;
  std::condition_variable arrived_;
  std::function<void()> work_;
  bool ends_ = false;  // the other thread's
  std::thread thread_{[this] { run(); }};
};

constexpr auto kCudaConvolutions = std::pair(Float32Backend::CUDA, Float32Op::CONV);

Float32Precision precision_of_convolutions() {
  return context().float32Precision(kCudaConvolutions.first, kCudaConvolutions.second);
}

// Reading the precision switches flips them for a moment: a step that runs meanwhile would run without TF32.
TEST(GlobalStateOfSeveralThreads, NoSearchFlipsASwitchOfAnother) {
  ASSERT_EQ(precision_of_convolutions(), Float32Precision::TF32);
  auto const searching = make_global_state_guard();
  std::atomic<bool> ends = false;
  std::thread other([&] {
    for (int search = 0; search < 300; ++search) {
      auto const guard = make_global_state_guard();
      guard->restore_structure();
      guard->restore_values();
    }
    ends = true;
  });
  std::int64_t flipped = 0;
  while (!ends) { flipped += precision_of_convolutions() != Float32Precision::TF32 ? 1 : 0; }
  other.join();
  EXPECT_EQ(flipped, 0);
  EXPECT_EQ(precision_of_convolutions(), Float32Precision::TF32);
}

TEST(GlobalStateOfSeveralThreads, WhatTrialsLeaveBehindComesBackWhoeverEndsLast) {
  auto const before = process();
  for (bool const the_first_ends_first : {true, false}) {
    SCOPED_TRACE(the_first_ends_first);
    OtherThread other;
    auto first = make_global_state_guard();
    context().setDeterministicCuDNN(true);  // a trial of the first search is running
    std::unique_ptr<StateGuard> second;
    other([&] { second = make_global_state_guard(); });
    context().setFloat32Precision(kCudaConvolutions.first, kCudaConvolutions.second, Float32Precision::IEEE);
    other([&] { second->restore_structure(); });
    EXPECT_TRUE(context().deterministicCuDNN()) << "the first one's trial is still running";
    EXPECT_EQ(precision_of_convolutions(), Float32Precision::IEEE);
    if (the_first_ends_first) {
      first->restore_values();
      first.reset();
      other([&] { second->restore_values(), second.reset(); });
    } else {
      other([&] { second->restore_values(), second.reset(); });
      first->restore_values();
      first.reset();
    }
    EXPECT_THAT(before.differences(process()), IsEmpty());
  }
}

TEST(GlobalStateOfSeveralThreads, WhatIsOwedComesBackWhenBothAreThroughBeforeEitherGoes) {
  auto const before = process();
  OtherThread other;
  auto first = make_global_state_guard();
  std::unique_ptr<StateGuard> second;
  other([&] { second = make_global_state_guard(); });
  context().setBenchmarkCuDNN(true);
  first->restore_values();
  other([&] { second->restore_values(); });
  EXPECT_TRUE(context().benchmarkCuDNN());
  other([&] { second.reset(); });
  EXPECT_TRUE(context().benchmarkCuDNN());
  first.reset();
  EXPECT_THAT(before.differences(process()), IsEmpty());
}

TEST(GlobalStateOfSeveralThreads, WhoIsAloneAgainPutsBackAfterEachTrial) {
  OtherThread other;
  auto const first = make_global_state_guard();
  other([&] { make_global_state_guard()->restore_values(); });
  context().setBenchmarkCuDNN(true);
  first->restore_structure();
  EXPECT_FALSE(context().benchmarkCuDNN());
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
