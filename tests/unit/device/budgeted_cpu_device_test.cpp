#include "device/layout_teller.hpp"
#include <maxbatch/device/budgeted_cpu_device.hpp>
#include <maxbatch/search/errors.hpp>

#include <c10/core/CPUAllocator.h>
#include <torch/torch.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <cstdlib>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace maxbatch::test {
namespace {

using namespace maxbatch::literals;
using ::testing::HasSubstr;

/// A tensor of this many bytes; its memory is one allocation.
at::Tensor bytes(std::int64_t count) { return at::empty({count}, at::kByte); }

/// Static, so that it was allocated before any device installed the allocator.
at::Tensor const made_before = at::ones({1000});

class BudgetedCpu : public ::testing::Test {
 protected:
  std::shared_ptr<BudgetedCpuDevice> const device = budgeted_cpu_device(1_MiB);
};

TEST_F(BudgetedCpu, CountsNothingUnlessATrialIsOpen) {
  auto const before = bytes(5 << 20);  // more than the budget
  auto window = device->open_trial();
  EXPECT_EQ(window->evidence().peaks, MemoryPeaks{});
  EXPECT_EQ(window->evidence().allocation_count, 0);
  EXPECT_TRUE(window->evidence().phases.empty());
  window->disarm();
  auto const after = bytes(5 << 20);
  EXPECT_EQ(window->evidence().peaks, MemoryPeaks{});
  EXPECT_EQ(window->still_allocated(), 0_B);
}

TEST_F(BudgetedCpu, ChargesRoundedSizesAndReportsBoth) {
  auto const window = device->open_trial();
  auto const a = bytes(1);
  auto const b = bytes(513);
  auto const none = bytes(0);
  auto const evidence = window->evidence();
  EXPECT_EQ(evidence.peaks.requested, 514_B);
  EXPECT_EQ(evidence.peaks.allocated, 1536_B);
  EXPECT_EQ(evidence.peaks.active, 1536_B);
  EXPECT_EQ(evidence.peaks.reserved, 1536_B);
  EXPECT_EQ(evidence.allocation_count, 2);
  EXPECT_EQ(window->still_allocated(), 1536_B);
}

TEST_F(BudgetedCpu, GivesPeaksByPhaseWhatWasThereOnEntryIncluded) {
  auto const window = device->open_trial();
  EXPECT_EQ(window->enter_phase(Phase::forward), Phase::other);
  auto activations = bytes(4096);
  { auto const scratch = bytes(8192); }
  EXPECT_EQ(window->enter_phase(Phase::backward), Phase::forward);
  auto const gradient = bytes(1024);
  activations.reset();
  EXPECT_EQ(window->enter_phase(Phase::optimizer), Phase::backward);
  auto const evidence = window->evidence();
  ASSERT_EQ(evidence.phases.size(), 3U);
  EXPECT_EQ(evidence.phases[0].phase, Phase::forward);
  EXPECT_EQ(evidence.phases[0].peaks.reserved, Bytes{4096 + 8192});
  EXPECT_EQ(evidence.phases[1].phase, Phase::backward);
  EXPECT_EQ(evidence.phases[1].peaks.reserved, Bytes{4096 + 1024});
  EXPECT_EQ(evidence.phases[2].phase, Phase::optimizer);
  EXPECT_EQ(evidence.phases[2].peaks.reserved, 1_KiB);
}

TEST_F(BudgetedCpu, ThrowsLibTorchsTypeAndSaysWhatWhereAndHowMuch) {
  auto const window = device->open_trial();
  auto const half = bytes(512 << 10);
  window->enter_phase(Phase::backward);
  try {
    bytes(2 << 20);
    FAIL() << "two MiB under a budget of one";
  } catch (c10::OutOfMemoryError const& error) {
    EXPECT_STREQ(error.what_without_backtrace(),
                 "CPU out of memory (maxbatch budget). Tried to allocate 2 MiB (2097152 bytes) in phase backward; "
                 "512 KiB of 1 MiB are free (512 KiB allocated)");
  }
  auto const evidence = window->evidence();
  EXPECT_EQ(evidence.out_of_memory_events, 1);
  EXPECT_EQ(evidence.allocation_count, 1);
  ASSERT_TRUE(evidence.failed_request);
  EXPECT_EQ(evidence.failed_request->phase, Phase::backward);
  EXPECT_EQ(evidence.failed_request->requested, 2_MiB);
  EXPECT_EQ(evidence.failed_request->short_by_at_least, 1536_KiB);
  EXPECT_EQ(evidence.free_at_failure, 512_KiB);
  EXPECT_EQ(evidence.peaks.reserved, 512_KiB) << "a refused request raises no peak";
}

TEST_F(BudgetedCpu, LendsTheWholeBudgetAgainAfterAFailure) {
  auto const window = device->open_trial();
  EXPECT_THROW(bytes((1 << 20) + 1), c10::OutOfMemoryError);
  EXPECT_NO_THROW(bytes(1 << 20));
  EXPECT_EQ(window->still_allocated(), 0_B);
}

TEST_F(BudgetedCpu, FailsTheChosenAllocationOfTheNextTrialOnly) {
  device->fail_allocation(3);
  for (int const trial : {1, 2}) {
    auto const window = device->open_trial();
    std::vector<at::Tensor> kept;
    std::string said;
    for (int i = 0; i < 5; ++i) {
      try {
        kept.push_back(bytes(100));
      } catch (c10::OutOfMemoryError const& error) { said += std::to_string(i + 1) + error.what_without_backtrace(); }
    }
    if (trial == 1) {
      EXPECT_EQ(kept.size(), 4U);
      EXPECT_THAT(said, HasSubstr("3CPU out of memory (maxbatch budget). Tried to allocate 100 B (100 bytes)"));
      EXPECT_THAT(said, HasSubstr("(injected: allocation 3 of this trial)"));
      EXPECT_EQ(window->evidence().out_of_memory_events, 1);
    } else {
      EXPECT_EQ(kept.size(), 5U);
    }
  }
}

TEST_F(BudgetedCpu, CountsResidentBytesFromTheNextTrialOn) {
  device->set_resident(1000_KiB);
  auto window = device->open_trial();
  EXPECT_EQ(window->evidence().peaks, MemoryPeaks::all(1000_KiB));
  EXPECT_EQ(window->still_allocated(), 0_B);
  EXPECT_NO_THROW(bytes(24 << 10));
  try {
    bytes((24 << 10) + 1);
    FAIL();
  } catch (c10::OutOfMemoryError const& error) {
    EXPECT_THAT(error.what_without_backtrace(),
                HasSubstr("24 KiB of 1 MiB are free (0 B allocated, 1,000 KiB there before)"));
  }
}

TEST_F(BudgetedCpu, FollowsFreesAfterTheTrialAndChargesWhatItLeftToTheNext) {
  auto first = device->open_trial();
  auto leaked = bytes(600 << 10);
  first->disarm();
  first->disarm();
  EXPECT_EQ(first->still_allocated(), 600_KiB);
  EXPECT_EQ(first->evidence().peaks.reserved, 600_KiB);
  {
    auto const second = device->open_trial();
    EXPECT_EQ(second->still_allocated(), 0_B);
    EXPECT_EQ(second->evidence().peaks.reserved, 600_KiB);
    EXPECT_THROW(bytes(600 << 10), c10::OutOfMemoryError);
    leaked.reset();
    EXPECT_EQ(first->still_allocated(), 0_B);
    EXPECT_NO_THROW(bytes(600 << 10));
    EXPECT_EQ(first->evidence().allocation_count, 1) << "frozen";
    EXPECT_EQ(first->enter_phase(Phase::forward), Phase::other) << "not the second's phase";
  }
}

TEST_F(BudgetedCpu, TensorsMayOutliveTheDevice) {
  auto device_of_five = budgeted_cpu_device(1_MiB, 5);
  auto window = device_of_five->open_trial();
  auto tensor = at::ones({1000});
  window.reset();
  device_of_five.reset();
  EXPECT_EQ(tensor.sum().item<float>(), 1000.F);
  EXPECT_EQ(budgeted_cpu_device(1_MiB, 5)->open_trial()->evidence().peaks.reserved, 4_KiB) << "still there";
  tensor.reset();
  EXPECT_EQ(budgeted_cpu_device(1_MiB, 5)->open_trial()->evidence().peaks.reserved, 0_B);
}

using BudgetedCpuDeathTest = BudgetedCpu;

TEST_F(BudgetedCpuDeathTest, TensorsMayOutliveEverythingElse) {
  ::testing::FLAGS_gtest_death_test_style = "threadsafe";  // exit() of a forked child misses the pools' threads
  EXPECT_EXIT(
      {
        static at::Tensor last;  // destroyed before made_before, after much of the rest
        static auto& window = *device->open_trial().release();
        static_cast<void>(window);
        last = bytes(1000);
        std::exit(0);
      },
      ::testing::ExitedWithCode(0), "");
}

TEST_F(BudgetedCpu, LeavesMemoryOfBeforeTheInstallationAlone) {
  auto const* const allocator = c10::GetCPUAllocator();
  EXPECT_NE(made_before.storage().data_ptr().get_deleter(), allocator->raw_deleter());
  EXPECT_EQ(bytes(10).storage().data_ptr().get_deleter(), allocator->raw_deleter()) << "unarmed too";
  auto const window = device->open_trial();
  auto copy = made_before.clone();
  EXPECT_EQ(window->still_allocated(), 4_KiB);
  copy.reset();
  EXPECT_EQ(window->still_allocated(), 0_B);
}

TEST_F(BudgetedCpu, KeepsTheContractOfRawMemory) {
  auto* const allocator = c10::GetCPUAllocator();
  auto const window = device->open_trial();
  auto* const raw = allocator->raw_allocate(100);
  EXPECT_EQ(window->still_allocated(), 512_B);
  auto const copy = allocator->clone(raw, 100);
  EXPECT_EQ(window->still_allocated(), 1024_B);
  EXPECT_EQ(copy.get_deleter(), allocator->raw_deleter());
  EXPECT_TRUE(allocator->is_simple_data_ptr(copy));
  allocator->raw_deallocate(raw);
  EXPECT_EQ(window->still_allocated(), 512_B);
  EXPECT_EQ(allocator->allocate(0).get(), nullptr);
}

TEST_F(BudgetedCpu, HoldsOldAndNewStorageWhileATensorGrows) {
  auto const window = device->open_trial();
  auto tensor = bytes(10 << 10);
  tensor.resize_({30 << 10});
  EXPECT_EQ(window->evidence().peaks.reserved, 40_KiB);
  EXPECT_EQ(window->still_allocated(), 30_KiB);
  EXPECT_THROW(tensor.resize_({1 << 20}), c10::OutOfMemoryError) << "1 MiB and 30 KiB";
  EXPECT_EQ(window->still_allocated(), 30_KiB);
  EXPECT_EQ(tensor.storage().nbytes(), 30U << 10);
  // LibTorch 2.11 changes the sizes before it asks for the storage, so the tensor must not be used now.
  EXPECT_EQ(tensor.numel(), 1 << 20) << "LibTorch made this safe? Then docs/cpu_budget.md may say so.";
}

TEST_F(BudgetedCpu, ChargesALazyCloneWhenItIsWritten) {
  auto const window = device->open_trial();
  {
    auto const tensor = at::ones({1024}, at::kByte);
    auto lazy = at::_lazy_clone(tensor);
    EXPECT_EQ(window->still_allocated(), 1_KiB);
    lazy.add_(1);
    EXPECT_EQ(window->still_allocated(), 2_KiB);
  }
  EXPECT_EQ(window->still_allocated(), 0_B);
}

TEST_F(BudgetedCpu, DoesNotTouchForeignMemory) {
  auto const window = device->open_trial();
  std::vector<float> own(1 << 20, 2.F);  // 4 MiB
  bool deleted = false;
  {
    auto const tensor = at::from_blob(own.data(), {1 << 20}, [&deleted](void*) { deleted = true; });
    EXPECT_EQ(tensor[5].item<float>(), 2.F);
  }
  EXPECT_TRUE(deleted);
  EXPECT_EQ(window->evidence().out_of_memory_events, 0);
}

TEST_F(BudgetedCpu, ATrainingStepLeavesNothing) {
  auto const large = budgeted_cpu_device(1_GiB, 9);
  large->warm_up();
  auto const window = large->open_trial();
  {
    torch::nn::Linear model(64, 64);
    torch::optim::AdamW optimizer(model->parameters());
    model->forward(torch::randn({32, 64})).pow(2).mean().backward();
    optimizer.step();
    EXPECT_GT(window->still_allocated(), 64_KiB);
  }
  EXPECT_EQ(window->still_allocated(), 0_B);
}

TEST_F(BudgetedCpu, WarmUpTouchesNothingOfTheCaller) {
  torch::manual_seed(7);
  auto const state = at::detail::getDefaultCPUGenerator().get_state();
  {
    torch::InferenceMode const inference;
    device->warm_up();
    EXPECT_FALSE(at::GradMode::is_enabled());
  }
  device->warm_up();
  EXPECT_TRUE(at::equal(at::detail::getDefaultCPUGenerator().get_state(), state));
  device->synchronize();
  device->release_cached_memory();
  EXPECT_TRUE(device->is_alive());
}

TEST_F(BudgetedCpu, DescribesItself) {
  auto const under_budget = device->describe();
  EXPECT_EQ(under_budget.name, "cpu under a budget");
  EXPECT_EQ(under_budget.budget, 1_MiB);
  EXPECT_EQ(under_budget.torch_device, torch::Device(torch::kCPU));
  EXPECT_EQ(to_string(under_budget.evidence), "cpu");
  EXPECT_THAT(under_budget.allocator_settings, HasSubstr("512 bytes"));
  device->set_budget(std::nullopt);
  EXPECT_FALSE(device->describe().budget);
  EXPECT_GT(device->describe().total, 128_MiB);
  auto const window = device->open_trial();
  auto const held = bytes(5 << 20);
  EXPECT_THROW(bytes(device->describe().total.count), c10::OutOfMemoryError);
}

TEST_F(BudgetedCpu, RefusesMisuse) {
  EXPECT_THROW(budgeted_cpu_device(0_B), InvalidArgument);
  EXPECT_THROW(budgeted_cpu_device(Bytes{-1}), InvalidArgument);
  EXPECT_THROW(budgeted_cpu_device(1_MiB, -1), InvalidArgument);
  EXPECT_THROW(device->set_budget(0_B), InvalidArgument);
  EXPECT_THROW(device->set_resident(Bytes{-1}), InvalidArgument);
  EXPECT_THROW(device->fail_allocation(-1), InvalidArgument);
  auto window = device->open_trial();
  EXPECT_THROW(device->open_trial(), std::logic_error);
  EXPECT_THROW(budgeted_cpu_device(1_MiB)->open_trial(), std::logic_error) << "another device, the same account";
  EXPECT_THROW(budgeted_cpu_device(1_MiB, 1)->open_trial(), std::logic_error) << "another account, the same thread";
  EXPECT_THROW(device->set_budget(2_MiB), std::logic_error);
  EXPECT_THROW(device->set_resident(2_MiB), std::logic_error);
  EXPECT_THROW(device->fail_allocation(1), std::logic_error);
  window->disarm();
  EXPECT_NO_THROW(device->open_trial()) << "ended, if not destroyed";
}

TEST_F(BudgetedCpu, NoticesThatItWasReplaced) {
  class Replacement final : public c10::Allocator {
   public:
    c10::DataPtr allocate(std::size_t size) override { return c10::GetDefaultCPUAllocator()->allocate(size); }
    void copy_data(void* to, void const* from, std::size_t size) const override { default_copy_data(to, from, size); }
  };
  static auto& replacement = *new Replacement;
  auto* const ours = c10::GetCPUAllocator();
  c10::SetCPUAllocator(&replacement, 255);
  EXPECT_THROW(device->open_trial(), std::logic_error);
  c10::SetCPUAllocator(ours, 255);
  EXPECT_NO_THROW(device->open_trial());
}

/// The budget spent as a caching allocator would.
class CachingCpu : public ::testing::Test {
 protected:
  CachingCpu() { device->account_with(AllocatorSettings{}); }
  ~CachingCpu() override { device->account_with(std::nullopt); }

  std::shared_ptr<BudgetedCpuDevice> const device = budgeted_cpu_device(44_MiB);
};

TEST_F(CachingCpu, KeepsWhatWasFreed) {
  auto const window = device->open_trial();
  { auto const first = bytes(12 << 20); }
  auto const second = bytes(11 << 20);
  auto const peaks = window->evidence().peaks;
  EXPECT_EQ(peaks.requested, 12_MiB);
  EXPECT_EQ(peaks.reserved, 12_MiB) << "the second is served from the first one's segment";
  EXPECT_EQ(window->evidence().allocation_retries, 0);
}

TEST_F(CachingCpu, FlushesToMakeRoom) {
  auto const window = device->open_trial();
  auto first = bytes(12 << 20);
  auto const second = bytes(12 << 20);
  auto third = bytes(12 << 20);
  first.reset();
  third.reset();
  auto const larger = bytes(20 << 20);
  auto const evidence = window->evidence();
  EXPECT_EQ(evidence.allocation_retries, 1);
  EXPECT_EQ(evidence.out_of_memory_events, 0);
  EXPECT_EQ(evidence.peaks.reserved, 36_MiB);
  EXPECT_EQ(evidence.peaks.allocated, 36_MiB);
}

TEST_F(CachingCpu, RefusesWhatFragmentsHaveNoRoomFor) {
  device->set_budget(24_MiB);
  auto const window = device->open_trial();
  auto first = bytes(8 << 20);  // both in a segment of 20 MiB
  auto const second = bytes(8 << 20);
  first.reset();
  EXPECT_THROW(bytes(14 << 20), c10::OutOfMemoryError)
      << "16 MiB of 24 are not allocated, but 12 are the most in a piece";
  auto const evidence = window->evidence();
  ASSERT_TRUE(evidence.failed_request);
  EXPECT_EQ(evidence.failed_request->requested, 14_MiB);
  EXPECT_EQ(evidence.failed_request->segment, 14_MiB);
  EXPECT_EQ(evidence.failed_request->short_by_at_least, 10_MiB);
  EXPECT_EQ(evidence.free_at_failure, 4_MiB);
  EXPECT_EQ(evidence.allocation_retries, 0) << "the flush did not help";

  window->disarm();
  device->release_cached_memory();
}

TEST_F(CachingCpu, HasOtherSegmentsWithOtherSettings) {
  device->account_with(parse_allocator_settings("expandable_segments:True"));
  auto const window = device->open_trial();
  auto first = bytes(8 << 20);
  auto const second = bytes(8 << 20);
  EXPECT_EQ(window->evidence().peaks.reserved, 20_MiB) << "pages of 20 MiB";
  auto const third = bytes(14 << 20);
  EXPECT_EQ(window->evidence().peaks.reserved, 40_MiB) << "in one piece with what was left of the first pages";
}

TEST_F(CachingCpu, RepeatsItsLayoutWhereTheProgramRepeats) {
  auto const window = device->open_trial();
  auto const& layout = dynamic_cast<detail::LayoutTeller const&>(*window);
  auto const step = [] {
    auto const a = bytes(3 << 20);
    auto const b = bytes(12 << 20);
  };
  step();
  auto const after_one = layout.layout_fingerprint();
  auto const held = bytes(1 << 20);
  EXPECT_NE(layout.layout_fingerprint(), after_one);
  step();
  auto const after_two = layout.layout_fingerprint();
  step();
  EXPECT_EQ(layout.layout_fingerprint(), after_two);
}

TEST_F(CachingCpu, ChangesHowItAccountsOnlyWhileNothingIsAllocated) {
  auto window = device->open_trial();
  EXPECT_THROW(device->account_with(std::nullopt), std::logic_error);
  auto held = bytes(100);
  window.reset();
  EXPECT_THROW(device->account_with(std::nullopt), std::logic_error);
  held.reset();
  device->account_with(std::nullopt);
  EXPECT_THAT(device->describe().allocator_settings, HasSubstr("no caching"));
}

}  // namespace
}  // namespace maxbatch::test
