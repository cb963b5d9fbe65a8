#include <maxbatch/device/budgeted_cpu_device.hpp>

#include <torch/torch.h>

#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <random>
#include <thread>
#include <vector>

namespace maxbatch::test {
namespace {

using namespace maxbatch::literals;

at::Tensor bytes(std::int64_t count) { return at::empty({count}, at::kByte); }

TEST(BudgetedCpuThreads, ChargesThreadsOfTheOnlyTrial) {
  auto const device = budgeted_cpu_device(1_MiB);
  auto const window = device->open_trial();
  at::Tensor made_there;
  std::thread([&] {
    made_there = bytes(4096);
    EXPECT_THROW(bytes(2 << 20), c10::OutOfMemoryError);
  }).join();
  EXPECT_EQ(window->still_allocated(), 4_KiB);
  std::thread([&] { made_there.reset(); }).join();
  EXPECT_EQ(window->still_allocated(), 0_B);
  EXPECT_EQ(window->evidence().out_of_memory_events, 1);
}

TEST(BudgetedCpuThreads, ChargesWorkersOfParallelFor) {
  auto const threads_before = at::get_num_threads();
  at::set_num_threads(4);
  auto const device = budgeted_cpu_device(1_GiB);
  device->warm_up();
  auto const window = device->open_trial();
  std::vector<at::Tensor> made(64);
  at::parallel_for(0, 64, 1, [&](std::int64_t begin, std::int64_t end) {
    for (auto i = begin; i < end; ++i) { made[static_cast<std::size_t>(i)] = bytes(1000); }
  });
  EXPECT_EQ(window->still_allocated(), 64_KiB);
  EXPECT_EQ(window->evidence().allocation_count, 64);
  made.clear();
  EXPECT_EQ(window->still_allocated(), 0_B);
  at::set_num_threads(threads_before);
}

TEST(BudgetedCpuThreads, ChargesBackwardWhichRunsOnTheCallersThread) {
  // What Note [Whom an allocation is charged to] relies on where several trials are open.
  auto const device = budgeted_cpu_device(1_GiB);
  device->warm_up();
  auto const window = device->open_trial();
  auto const weight = torch::randn({256, 256}, torch::requires_grad());
  auto const product = weight.mm(weight);
  std::thread::id ran_on;
  product.register_hook([&](at::Tensor const&) { ran_on = std::this_thread::get_id(); });
  auto const loss = product.pow(2).sum();
  window->enter_phase(Phase::backward);
  auto const before = window->still_allocated();
  loss.backward();
  EXPECT_EQ(ran_on, std::this_thread::get_id());
  EXPECT_EQ(window->still_allocated(), before + 256_KiB) << "the gradient";
  EXPECT_GT(window->evidence().phases.back().peaks.reserved, before + 256_KiB);
}

TEST(BudgetedCpuThreads, KeepsTwoTrialsInTwoThreadsApart) {
  auto const rank = [](c10::DeviceIndex index, std::int64_t budget_kib, std::atomic<int>& ready,
                       std::atomic<int>& done) {
    auto const device = budgeted_cpu_device(Bytes{budget_kib << 10}, index);
    auto const window = device->open_trial();
    ++ready;
    while (ready < 2) { std::this_thread::yield(); }
    for (int i = 0; i < 2000; ++i) {
      auto const fits = bytes(budget_kib << 10);
      EXPECT_THROW(bytes(1), c10::OutOfMemoryError);
      EXPECT_EQ(window->still_allocated().count, budget_kib << 10);
    }
    ++done;
    while (done < 2) { std::this_thread::yield(); }
    auto const evidence = window->evidence();
    EXPECT_EQ(evidence.peaks.reserved.count, budget_kib << 10);
    EXPECT_EQ(evidence.allocation_count, 2000);
    EXPECT_EQ(evidence.out_of_memory_events, 2000);
    EXPECT_EQ(evidence.unattributed_allocations, 0);
  };
  std::atomic<int> ready{0};
  std::atomic<int> done{0};
  std::thread other(rank, c10::DeviceIndex{1}, 100, std::ref(ready), std::ref(done));
  std::thread(rank, c10::DeviceIndex{0}, 200, std::ref(ready), std::ref(done)).join();
  other.join();
}

TEST(BudgetedCpuThreads, SaysWhatItCouldNotAttribute) {
  auto const zero = budgeted_cpu_device(1_MiB, 0);
  auto const window = zero->open_trial();
  std::thread([&] {
    auto const other = budgeted_cpu_device(1_MiB, 1)->open_trial();
    std::thread([] { bytes(5 << 20); }).join();  // more than either budget
    EXPECT_EQ(other->evidence().unattributed_allocations, 1);
    EXPECT_EQ(other->evidence().unattributed, 5_MiB);
  }).join();
  EXPECT_EQ(window->evidence().unattributed_allocations, 1);
  EXPECT_EQ(window->evidence().out_of_memory_events, 0);
  EXPECT_EQ(window->evidence().peaks.reserved, 0_B);
}

TEST(BudgetedCpuThreads, IsNotChargedForARankThatIsBetweenItsTrials) {
  auto const zero = budgeted_cpu_device(1_MiB, 0);
  auto const window = zero->open_trial();
  std::thread([] {
    auto const one = budgeted_cpu_device(1_MiB, 1);
    one->warm_up();
    auto const restored_state = bytes(5 << 20);
  }).join();
  EXPECT_EQ(window->evidence().allocation_count, 0);
  EXPECT_EQ(window->evidence().unattributed_allocations, 0);
}

TEST(BudgetedCpuThreads, StaysExactUnderTrafficOfTensors) {
  auto const device = budgeted_cpu_device(256_KiB);
  auto window = device->open_trial();
  std::atomic<std::int64_t> granted{0};
  std::atomic<std::int64_t> refused{0};
  std::vector<std::thread> threads;
  for (unsigned seed = 0; seed < 8; ++seed) {
    threads.emplace_back([&, seed] {
      std::mt19937 random(seed);
      std::vector<at::Tensor> kept;
      for (int i = 0; i < 5000; ++i) {
        if (kept.size() > 20 || (!kept.empty() && random() % 2 == 0)) {
          std::swap(kept[random() % kept.size()], kept.back());
          kept.pop_back();
          continue;
        }
        try {
          kept.push_back(bytes(static_cast<std::int64_t>(1 + random() % 60'000)));
          ++granted;
        } catch (c10::OutOfMemoryError const&) { ++refused; }
      }
    });
  }
  for (auto& thread : threads) { thread.join(); }
  auto const evidence = window->evidence();
  EXPECT_EQ(window->still_allocated(), 0_B);
  EXPECT_EQ(evidence.allocation_count, granted);
  EXPECT_EQ(evidence.out_of_memory_events, refused);
  EXPECT_GT(refused, 0);
  EXPECT_LE(evidence.peaks.reserved, 256_KiB);
}

}  // namespace
}  // namespace maxbatch::test
