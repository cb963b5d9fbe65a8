#include "device/trial_ledger.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <mutex>
#include <thread>
#include <vector>

namespace maxbatch::detail {
namespace {

using namespace literals;

BlockLayout::Rules rules() {
  BlockLayout::Rules made;
  made.rounded = [](std::int64_t requested) { return (requested + 511) / 512 * 512; };
  made.largest_split = std::numeric_limits<std::int64_t>::max();
  return made;
}

/// An allocator that buys a segment of 2 MiB for every request of up to 1 MiB, under a lock as the real one.
class ToyAllocator {
 public:
  explicit ToyAllocator(AllocatorListener& listener) : listener_(listener) {}

  std::uint64_t allocate(std::int64_t size) {
    std::lock_guard<std::mutex> const lock(mutex_);
    auto const address = next_;
    next_ += std::uint64_t{4} << 20U;
    say(TraceAction::segment_alloc, address, 2 << 20);
    say(TraceAction::alloc, address, size);
    return address;
  }
  void free(std::uint64_t address) {
    std::lock_guard<std::mutex> const lock(mutex_);
    say(TraceAction::free_requested, address, 0);
    say(TraceAction::free_completed, address, 0);
    say(TraceAction::segment_free, address, 2 << 20);
  }
  void refuse(std::int64_t size, std::int64_t device_free) {
    {
      std::lock_guard<std::mutex> const lock(mutex_);
      say(TraceAction::oom, static_cast<std::uint64_t>(device_free), size);
    }
    listener_.on_refusal({size, device_free, /*is_workspace=*/false});
  }
  void snapshot() {
    std::lock_guard<std::mutex> const lock(mutex_);
    say(TraceAction::snapshot, 0, 0);
  }

 private:
  void say(TraceAction action, std::uint64_t address, std::int64_t size) {
    AllocatorEvent event;
    event.action = action;
    event.address = address;
    event.size = size;
    listener_.on_event(event);
  }

  AllocatorListener& listener_;
  std::mutex mutex_;
  std::uint64_t next_ = std::uint64_t{1} << 30U;
};

Bytes reserved_in(TrialEvidence const& evidence, Phase phase) {
  for (auto const& known : evidence.phases) {
    if (known.phase == phase) { return known.peaks.reserved; }
  }
  return Bytes{0};
}

TEST(TrialLedger, CountsFromTheSnapshotOn) {
  TrialLedger ledger(64);
  ToyAllocator allocator(ledger);
  auto const address = allocator.allocate(100);
  allocator.snapshot();
  allocator.free(address);  // between the snapshot and `begin`
  TraceSegment segment;
  segment.blocks = {{address, 512, 100, TraceBlock::State::allocated},
                    {address + 512, (2 << 20) - 512, 0, TraceBlock::State::inactive}};
  ledger.begin(rules(), {segment}, std::nullopt);
  EXPECT_EQ(ledger.evidence().peaks.reserved, 0_B);
  EXPECT_TRUE(ledger.is_consistent());
}

TEST(TrialLedger, APhaseHoldsWhatWasLiveWhenItBeganAndNests) {
  TrialLedger ledger(64);
  ToyAllocator allocator(ledger);
  ledger.begin(rules(), {}, std::nullopt);
  EXPECT_EQ(ledger.enter_phase(Phase::setup), Phase::other);
  auto const model = allocator.allocate(1000);
  EXPECT_EQ(ledger.enter_phase(Phase::forward), Phase::setup);
  EXPECT_EQ(ledger.enter_phase(Phase::backward), Phase::forward);
  auto const gradient = allocator.allocate(1000);
  allocator.free(gradient);
  EXPECT_EQ(ledger.enter_phase(Phase::forward), Phase::backward);
  auto const evidence = ledger.evidence();
  EXPECT_EQ(reserved_in(evidence, Phase::forward), 2_MiB);
  EXPECT_EQ(reserved_in(evidence, Phase::backward), 4_MiB);
  EXPECT_EQ(reserved_in(evidence, Phase::optimizer), 0_B);
  EXPECT_EQ(evidence.allocation_count, 2);
  ledger.freeze();
  allocator.allocate(1000);
  EXPECT_EQ(ledger.evidence().peaks.reserved, 4_MiB);
  EXPECT_EQ(ledger.still_allocated(), 1024_B + 1024_B);
  allocator.free(model);
  EXPECT_EQ(ledger.still_allocated(), 1024_B);
}

TEST(TrialLedger, SaysByHowMuchARequestFailed) {
  TrialLedger ledger(64);
  ToyAllocator allocator(ledger);
  ledger.begin(rules(), {}, 10_MiB);
  allocator.allocate(1000);
  ledger.enter_phase(Phase::optimizer);
  allocator.refuse(20 << 20, std::int64_t{1} << 40);
  auto evidence = ledger.evidence();
  EXPECT_EQ(evidence.out_of_memory_events, 1);
  ASSERT_TRUE(evidence.failed_request);
  EXPECT_EQ(evidence.failed_request->phase, Phase::optimizer);
  EXPECT_EQ(evidence.failed_request->short_by_at_least, 12_MiB);
  EXPECT_EQ(evidence.free_at_failure, 8_MiB);
  allocator.refuse(4 << 20, 1 << 20);  // the device itself, below the limit
  EXPECT_EQ(ledger.evidence().failed_request->short_by_at_least, 3_MiB);
  allocator.refuse(4 << 20, 5 << 20);  // in pieces
  EXPECT_FALSE(ledger.evidence().failed_request->short_by_at_least);
}

TEST(TrialLedger, LosesNothingHoweverManyThreadsAllocateAndHoweverSmallItsBuffer) {
  for (std::size_t const capacity : {4U, 64U, 4096U}) {
    TrialLedger ledger(capacity);
    ToyAllocator allocator(ledger);
    ledger.begin(rules(), {}, std::nullopt);
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t) {
      threads.emplace_back([&] {
        for (int i = 0; i < 500; ++i) { allocator.free(allocator.allocate(1000)); }
        allocator.allocate(1000);
      });
    }
    for (int i = 0; i < 3000; ++i) {
      ledger.enter_phase(i % 2 == 0 ? Phase::forward : Phase::backward);
      if (i % 100 == 0) { ledger.evidence(); }
    }
    for (auto& thread : threads) { thread.join(); }
    EXPECT_EQ(ledger.evidence().allocation_count, 4 * 501);
    EXPECT_EQ(ledger.still_allocated().count, 4 * 1024);
    EXPECT_EQ(ledger.totals().reserved, 4 * (2 << 20));
    EXPECT_TRUE(ledger.is_consistent());
  }
}

}  // namespace
}  // namespace maxbatch::detail
