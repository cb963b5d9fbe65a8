#include "card_test.hpp"
#include <maxbatch/device/cuda_device.hpp>
#include <maxbatch/search/errors.hpp>

#include <c10/core/DeviceGuard.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <c10/util/Exception.h>
#include <torch/csrc/cuda/CUDAPluggableAllocator.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstdlib>
#include <random>
#include <thread>
#include <utility>
#include <vector>

namespace maxbatch::test {
namespace {

using namespace literals;
using ::testing::HasSubstr;
using CudaDeviceTest = CardTest;

std::string text_of_refusal(c10::DeviceIndex index = 0) {
  try {
    cuda_device(index);
  } catch (DeviceUnavailable const& error) { return error.what(); }
  return "";
}

/// Sizes on both sides of every threshold of the allocator's.
std::size_t random_size(std::mt19937_64& random) {
  auto const upto = [&](std::size_t most) { return std::uniform_int_distribution<std::size_t>(1, most)(random); };
  switch (upto(6)) {
    case 1: return upto(2048);
    case 2: return upto(std::size_t{1} << 20U) + (std::size_t{1} << 19U);
    case 3: return (std::size_t{1} << 20U) + upto(3) - 2;
    case 4: return (std::size_t{10} << 20U) + upto(3) - 2;
    case 5: return upto(std::size_t{12} << 20U);
    default: return upto(std::size_t{40} << 20U);
  }
}

MemoryPeaks larger(MemoryPeaks const& a, MemoryPeaks const& b) { return larger_of_each(a, b); }

std::string text_of(MemoryPeaks const& p) {
  return std::to_string(p.requested.count) + " " + std::to_string(p.allocated.count) + " " +
         std::to_string(p.active.count) + " " + std::to_string(p.reserved.count);
}

TEST_F(CudaDeviceTest, PeaksOfEveryPhaseAreTheAllocatorsOwn) {
  std::mt19937_64 random(7);
  for (int round = 0; round < 20; ++round) {
    std::vector<c10::DataPtr> held;
    for (int i = 0; i < 5; ++i) { held.push_back(bytes_of_card(random_size(random))); }  // a live model
    auto const side = c10::cuda::getStreamFromPool(false, 0);
    auto const window = device->open_trial();
    std::array<MemoryPeaks, kAllPhases.size()> expected;
    for (int change = 0; change < 12; ++change) {
      auto const phase = change == 0 ? Phase::other : kAllPhases[random() % kAllPhases.size()];
      if (change > 0) { window->enter_phase(phase); }
      allocator::resetPeakStats(0);  // a program may; ours are not disturbed
      for (int i = 0; i < 60; ++i) {
        if (random() % 3 != 0 || held.empty()) {
          held.push_back(bytes_of_card(random_size(random)));
          if (random() % 4 == 0) { allocator::recordStream(held.back(), side); }
        } else {
          std::swap(held[random() % held.size()], held.back());
          held.pop_back();
        }
        if (held.size() > 40) { held.erase(held.begin(), held.begin() + 10); }
        if (random() % 97 == 0) { allocator::emptyCache(); }
      }
      auto& of_phase = expected[static_cast<std::size_t>(phase)];
      of_phase = larger(of_phase, peaks_of_allocator());
    }
    auto const evidence = window->evidence();
    MemoryPeaks whole;
    for (auto const& [phase, peaks] : evidence.phases) {
      EXPECT_EQ(text_of(peaks), text_of(expected[static_cast<std::size_t>(phase)])) << to_string(phase);
      whole = larger(whole, peaks);
    }
    for (auto const& peaks : expected) { EXPECT_LE(peaks.reserved, whole.reserved); }
    EXPECT_EQ(text_of(evidence.peaks), text_of(whole));
    EXPECT_TRUE(device->peaks_are_exact());
  }
}

TEST_F(CudaDeviceTest, LeavesTheProgramsOwnPeakStatisticsAlone) {
  bytes_of_card(100 << 20);
  auto const before = peaks_of_allocator();
  {
    auto const window = device->open_trial();
    window->enter_phase(Phase::forward);
    auto const memory = bytes_of_card(30 << 20);
    EXPECT_EQ(window->evidence().peaks.requested.count, allocated_now());
  }
  EXPECT_EQ(text_of(peaks_of_allocator()), text_of(before));
}

TEST_F(CudaDeviceTest, ABudgetHoldsToTheByte) {
  for (std::int64_t const mebibytes : {2, 20, 22, 64, 998}) {
    Bytes const segment{mebibytes << 20};
    Bytes const exact = Bytes{reserved_now()} + segment;
    auto const size = static_cast<std::size_t>(mebibytes == 2 ? 1 << 20 : mebibytes << 20);
    device->set_budget(exact);
    {
      auto const window = device->open_trial();
      auto const fits = bytes_of_card(size);
      auto const evidence = window->evidence();
      EXPECT_EQ(evidence.peaks.reserved, exact);
      EXPECT_EQ(evidence.out_of_memory_events, 0);
      EXPECT_FALSE(evidence.failed_request);
    }
    device->release_cached_memory();
    device->set_budget(exact - 1_B);
    {
      auto const window = device->open_trial();
      window->enter_phase(Phase::backward);
      EXPECT_THROW(bytes_of_card(size), c10::OutOfMemoryError);
      auto const evidence = window->evidence();
      EXPECT_EQ(evidence.out_of_memory_events, 1);
      EXPECT_EQ(evidence.allocation_retries, 0);
      ASSERT_TRUE(evidence.failed_request);
      EXPECT_EQ(evidence.failed_request->phase, Phase::backward);
      EXPECT_EQ(evidence.failed_request->requested.count, static_cast<std::int64_t>(size));
      EXPECT_EQ(evidence.failed_request->segment, segment);
      EXPECT_EQ(evidence.failed_request->short_by_at_least, 1_B);
      EXPECT_EQ(evidence.free_at_failure, segment - 1_B);
    }
    device->release_cached_memory();
  }
}

TEST_F(CudaDeviceTest, TheProcesssOwnMemoryFractionComesBackToTheByte) {
  auto const limit_now = [] {  // by trial: the largest reservation that is allowed
    return allocator::getMemoryFraction(0);
  };
  for (double const fraction : {0.25, 0.333333333, 0.9, 1.0}) {
    allocator::setMemoryFraction(fraction, 0);
    auto const before = limit_now();
    device->set_budget(64_MiB);
    for (int i = 0; i < 3; ++i) {
      auto const window = device->open_trial();
      EXPECT_LT(limit_now(), before);
      if (i == 1) { window->disarm(); }
      if (i == 1) { EXPECT_EQ(limit_now(), before); }
    }
    EXPECT_EQ(limit_now(), before);
    device->set_budget(std::nullopt);
    auto const window = device->open_trial();
    EXPECT_EQ(limit_now(), before) << "without a budget it stays";
    EXPECT_EQ(device->describe().usable < device->describe().total, true);
  }
  allocator::setMemoryFraction(1.0, 0);
}

TEST_F(CudaDeviceTest, ABudgetOfTheWholeDeviceOrMoreIsNoCap) {
  auto const total = device->describe().total;
  for (auto const budget : {total, total + 5_GiB}) {
    device->set_budget(budget);
    auto const window = device->open_trial();
    EXPECT_EQ(allocator::getMemoryFraction(0), 1.0);
  }
}

TEST_F(CudaDeviceTest, CountsRequestsThatOnlyAFlushServed) {
  device->set_budget(Bytes{reserved_now()} + 100_MiB);
  auto const window = device->open_trial();
  bytes_of_card(60 << 20);                      // cached now
  auto const memory = bytes_of_card(80 << 20);  // has no room beside it
  auto const evidence = window->evidence();
  EXPECT_EQ(evidence.allocation_retries, 1);
  EXPECT_EQ(evidence.out_of_memory_events, 0);
}

TEST_F(CudaDeviceTest, FollowsWhatIsStillAllocatedAlsoAfterDisarming) {
  auto const before = bytes_of_card(5000);
  c10::DataPtr leaked;
  auto const window = device->open_trial();
  leaked = bytes_of_card(3 << 20);
  auto another = bytes_of_card(1000);
  EXPECT_EQ(window->still_allocated().count, (3 << 20) + 1024);
  window->disarm();
  another = c10::DataPtr();
  EXPECT_EQ(window->still_allocated().count, 3 << 20);
  std::thread([&] { leaked = c10::DataPtr(); }).join();
  EXPECT_EQ(window->still_allocated().count, 0);
  EXPECT_EQ(window->enter_phase(Phase::forward), Phase::other) << "a closed window counts nothing";
  EXPECT_EQ(window->evidence().peaks.allocated.count, 5120 + (3 << 20) + 1024);
}

TEST_F(CudaDeviceTest, CountsOtherThreadsUnderTheSamePhase) {
  auto const window = device->open_trial();
  EXPECT_EQ(window->enter_phase(Phase::backward), Phase::other);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([] {
      for (int i = 0; i < 3000; ++i) { bytes_of_card(static_cast<std::size_t>(512 + i * 7)); }
    });
  }
  for (auto& thread : threads) { thread.join(); }
  EXPECT_EQ(window->enter_phase(Phase::other), Phase::backward);
  auto const evidence = window->evidence();
  EXPECT_EQ(evidence.allocation_count, 12000);
  EXPECT_TRUE(device->peaks_are_exact());
}

TEST_F(CudaDeviceTest, FollowsMoreEventsThanItsBufferHolds) {
  allocator::resetPeakStats(0);
  auto const window = device->open_trial();
  window->enter_phase(Phase::forward);
  std::vector<c10::DataPtr> held;
  for (int i = 0; i < 100000; ++i) {
    held.push_back(bytes_of_card(static_cast<std::size_t>(512 + i % 5000)));
    if (held.size() > 300) { held.clear(); }
  }
  EXPECT_EQ(window->evidence().allocation_count, 100000);
  EXPECT_EQ(text_of(window->evidence().peaks), text_of(peaks_of_allocator()));
  EXPECT_TRUE(device->peaks_are_exact());
}

TEST_F(CudaDeviceTest, SaysWhatItIsAndWhatOthersHold) {
  auto const description = device->describe();
  EXPECT_EQ(description.evidence, is_dry() ? DeviceEvidence::dry : DeviceEvidence::measured);
  EXPECT_EQ(description.torch_device, c10::Device("cuda:0"));
  EXPECT_FALSE(description.name.empty());
  ASSERT_TRUE(description.outside_allocator && description.usable);
  EXPECT_GT(*description.outside_allocator, 50_MiB) << "a context takes some";
  EXPECT_EQ(*description.usable + *description.outside_allocator, description.total);
  auto const memory = bytes_of_card(200 << 20);
  if (is_dry()) { EXPECT_EQ(device->describe().outside_allocator, description.outside_allocator); }
}

TEST_F(CudaDeviceTest, OneTrialAtATimeOnAnIndex) {
  auto const other = cuda_device(0, 64_MiB);
  auto window = device->open_trial();
  try {
    other->open_trial();
    FAIL();
  } catch (std::logic_error const& error) { EXPECT_THAT(error.what(), HasSubstr("already open on cuda:0")); }
  window.reset();
  EXPECT_NO_THROW(other->open_trial());
}

TEST_F(CudaDeviceTest, RefusesBadArguments) {
  EXPECT_THROW(cuda_device(0, 0_B), InvalidArgument);
  EXPECT_THROW(device->set_budget(Bytes{-1}), InvalidArgument);
  EXPECT_THAT(text_of_refusal(100), HasSubstr("no cuda:100"));
  EXPECT_THAT(text_of_refusal(-1), HasSubstr("no cuda:-1"));
}

TEST_F(CudaDeviceTest, RefusesWhileAGraphIsCaptured) {
  auto const stream = c10::cuda::getStreamFromPool(false, 0);
  c10::cuda::CUDAStreamGuard const guard(stream);
  ASSERT_EQ(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), cudaSuccess);
  std::string text;
  try {
    device->open_trial();
  } catch (DeviceUnavailable const& error) { text = error.what(); }
  cudaGraph_t graph = nullptr;
  EXPECT_EQ(cudaStreamEndCapture(stream, &graph), cudaSuccess);
  cudaGraphDestroy(graph);
  EXPECT_THAT(text, HasSubstr("graph is being captured"));
  EXPECT_NO_THROW(device->open_trial());
}

TEST_F(CudaDeviceTest, IsAliveAndTakesNothingForTheQuestion) {
  device->warm_up();
  device->set_budget(1_MiB);
  auto const window = device->open_trial();
  auto const before = allocated_now();
  EXPECT_TRUE(device->is_alive());
  EXPECT_EQ(allocated_now(), before);
  EXPECT_EQ(window->evidence().allocation_count, 0);
  device->synchronize();
}

TEST_F(CudaDeviceTest, WarmingUpLeavesNothingAllocated) {
  auto const before = allocated_now();
  device->warm_up();
  EXPECT_EQ(allocated_now(), before);
  EXPECT_EQ(cudaPeekAtLastError(), cudaSuccess);
}

TEST_F(CudaDeviceTest, AnErrorOfTheRuntimesIsClearedBeforeATrial) {
  void* pointer = nullptr;
  cudaMalloc(&pointer, std::size_t{1} << 50U);
  EXPECT_NE(cudaPeekAtLastError(), cudaSuccess);
  auto const window = device->open_trial();
  EXPECT_EQ(cudaPeekAtLastError(), cudaSuccess);
}

// Each in a process of its own, by ctest: tests/unit/cuda_device/CMakeLists.txt.
TEST(CudaDeviceRefusals, SaysWhatIsInTheWay) {
  auto const* const expected = std::getenv("MAXBATCH_TEST_REFUSAL");
  if (expected == nullptr) { GTEST_SKIP() << "set MAXBATCH_TEST_REFUSAL to what the refusal has to say"; }
  if (std::getenv("MAXBATCH_TEST_PLUGGABLE") != nullptr) {
    using namespace torch::cuda::CUDAPluggableAllocator;
    changeCurrentAllocator(createCustomAllocator([](std::size_t, int, cudaStream_t) -> void* { return nullptr; },
                                                 [](void*, std::size_t, int, cudaStream_t) {}));
  }
  auto const text = text_of_refusal();
  EXPECT_THAT(text, HasSubstr(expected));
  EXPECT_EQ(text.find('\n'), std::string::npos);
}

class TwoCards : public CardTest {
 protected:
  void SetUp() override {
    CardTest::SetUp();
    if (c10::cuda::device_count() < 2) { GTEST_SKIP() << "there are not two CUDA devices"; }
  }
};

TEST_F(TwoCards, HaveBudgetsAndPeaksOfTheirOwn) {
  auto const second = cuda_device(1, 50_MiB);
  device->set_budget(30_MiB);
  auto const window = device->open_trial();
  auto const second_window = second->open_trial();
  auto const on_first = bytes_of_card(21 << 20);
  c10::cuda::CUDAGuard const guard(1);
  auto const on_second = bytes_of_card(45 << 20);
  EXPECT_THROW(bytes_of_card(20 << 20), c10::OutOfMemoryError);
  EXPECT_EQ(window->evidence().peaks.reserved.count, 22 << 20);
  EXPECT_EQ(window->evidence().out_of_memory_events, 0);
  EXPECT_EQ(second_window->evidence().peaks.reserved.count, 46 << 20);
  EXPECT_EQ(second_window->evidence().out_of_memory_events, 1);
}

TEST_F(TwoCards, FlushingOneLeavesTheOthersCache) {
  auto const second = cuda_device(1);
  {
    c10::cuda::CUDAGuard const guard(1);
    bytes_of_card(40 << 20);
  }
  bytes_of_card(60 << 20);
  auto const cached = reserved_now(0);
  auto const window = device->open_trial();
  EXPECT_GE(reserved_now(1), 40 << 20);
  second->release_cached_memory();
  EXPECT_EQ(reserved_now(1), 0);
  EXPECT_EQ(reserved_now(0), cached);
}

}  // namespace
}  // namespace maxbatch::test
