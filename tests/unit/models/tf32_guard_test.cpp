#include "models/tf32_guard.hpp"

#include <ATen/Context.h>

#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <memory>
#include <thread>

namespace maxbatch::test {
namespace {

using models::Tf32Guard;

c10::Device const kFirst{c10::kCUDA, 0};
c10::Device const kSecond{c10::kCUDA, 1};

bool products() { return at::globalContext().allowTF32CuBLAS(); }
bool convolutions() { return at::globalContext().allowTF32CuDNN(); }

// LibTorch's own setting, to which everything must come back.
class Tf32GuardTest : public ::testing::Test {
 protected:
  void SetUp() override { expect_own_setting(); }
  void TearDown() override { expect_own_setting(); }
  static void expect_own_setting() {
    EXPECT_FALSE(products());
    EXPECT_TRUE(convolutions());
  }
};

TEST_F(Tf32GuardTest, SetsBothFlagsForItsTime) {
  {
    Tf32Guard const guard(Precision::tf32, kFirst);
    EXPECT_TRUE(products());
    EXPECT_TRUE(convolutions());
  }
  expect_own_setting();
  for (auto const precision : {Precision::fp32, Precision::bf16, Precision::fp16}) {
    Tf32Guard const guard(precision, kFirst);
    EXPECT_FALSE(products());
    EXPECT_FALSE(convolutions());
  }
}

TEST_F(Tf32GuardTest, LeavesTheFlagsAloneOnTheCpu) {
  Tf32Guard const guard(Precision::tf32, c10::kCPU);
  expect_own_setting();
}

TEST_F(Tf32GuardTest, StepsThatWantTheSameOverlapAndTheLastPutsTheFlagsBack) {
  auto first = std::make_unique<Tf32Guard>(Precision::fp32, kFirst);
  auto second =
      std::async(std::launch::async, [] { return std::make_unique<Tf32Guard>(Precision::bf16, kSecond); }).get();
  first.reset();
  EXPECT_FALSE(convolutions()) << "the second step is still running";
  second.reset();
}

TEST_F(Tf32GuardTest, AStepThatWantsTheOtherThingWaits) {
  auto first = std::make_unique<Tf32Guard>(Precision::fp32, kFirst);
  std::atomic<bool> first_is_through = false;
  std::atomic<bool> waited = false;
  std::thread second([&] {
    Tf32Guard const guard(Precision::tf32, kSecond);
    waited = first_is_through.load();
    EXPECT_TRUE(convolutions());
  });
  for (int look = 0; look < 1000; ++look) {
    EXPECT_FALSE(convolutions());
    std::this_thread::yield();
  }
  first_is_through = true;
  first.reset();
  second.join();
  EXPECT_TRUE(waited);
}

}  // namespace
}  // namespace maxbatch::test
