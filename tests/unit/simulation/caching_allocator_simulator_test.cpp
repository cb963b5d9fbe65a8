#include <maxbatch/simulation/caching_allocator_simulator.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

namespace maxbatch::test {
namespace {

using namespace literals;
using testing::ElementsAre;
using testing::HasSubstr;

std::vector<std::string> actions_of(CachingAllocatorSimulator& simulator) {
  std::vector<std::string> actions;
  for (auto const& event : simulator.take_events()) { actions.emplace_back(to_string(event.action)); }
  return actions;
}

CachingAllocatorSimulator recording(std::string const& settings = "", EventTiming timing = EventTiming::immediate) {
  AllocatorOptions options;
  options.settings = parse_allocator_settings(settings);
  options.record_events = true;
  options.event_timing = timing;
  return CachingAllocatorSimulator(options);
}

// The rules themselves are tested beside LibTorch's allocator (tests/contract); this is about what is ours.

TEST(CachingAllocatorSimulator, TellsWhatItDidInTheAllocatorsOrder) {
  auto simulator = recording();
  auto const block = simulator.allocate(3_MiB);
  EXPECT_EQ(simulator.size_of(block), 3_MiB);
  simulator.free(block);
  simulator.empty_cache();
  EXPECT_THAT(actions_of(simulator),
              ElementsAre("segment_alloc", "alloc", "free_requested", "free_completed", "segment_free"));
  simulator.record_events(false);
  simulator.free(simulator.allocate(3_MiB));
  EXPECT_TRUE(simulator.events().empty());
}

TEST(CachingAllocatorSimulator, ARefusalIsAValueThatSaysWhatWasMissing) {
  auto simulator = recording();
  simulator.set_limit(30_MiB);
  auto const held = simulator.allocate(9_MiB, 5);
  EXPECT_TRUE(held);
  EXPECT_FALSE(simulator.refused_request());
  EXPECT_FALSE(simulator.allocate(12_MiB + 1_B, 5));
  auto const& refused = simulator.refused_request();
  ASSERT_TRUE(refused);
  EXPECT_EQ(refused->requested, 12_MiB + 1_B);
  EXPECT_EQ(refused->rounded, 12_MiB + 512_B);
  EXPECT_EQ(refused->segment_size, 14_MiB);
  EXPECT_EQ(refused->stream, 5U);
  EXPECT_EQ(refused->reserved, 20_MiB);
  EXPECT_EQ(refused->allowed, 30_MiB);
  EXPECT_EQ(simulator.statistics().num_ooms, 1);
  EXPECT_EQ(simulator.statistics().num_alloc_retries, 1);
}

TEST(CachingAllocatorSimulator, TheDeviceRefusesBeyondWhatOthersLeave) {
  AllocatorOptions options;
  options.device.total_memory = 100_MiB;
  options.device.outside_memory = 40_MiB;
  CachingAllocatorSimulator simulator(options);
  EXPECT_TRUE(simulator.allocate(60_MiB));
  EXPECT_FALSE(simulator.allocate(1_B));
  EXPECT_EQ(simulator.refused_request()->device_free, 0_B);
  EXPECT_EQ(simulator.refused_request()->allowed, std::nullopt);
}

TEST(CachingAllocatorSimulator, FractionsAreOfTheTotalAndCutOff) {
  AllocatorOptions options;
  options.device.total_memory = 1001_B;
  options.settings.per_process_memory_fraction = 0.5;
  CachingAllocatorSimulator simulator(options);
  EXPECT_EQ(simulator.limit(), 500_B);
  simulator.set_memory_fraction(1);
  EXPECT_EQ(simulator.limit(), std::nullopt);
  EXPECT_THROW(simulator.set_memory_fraction(1.5), InvalidAllocatorCall);
}

TEST(CachingAllocatorSimulator, ACopyGoesOnByItself) {
  auto simulator = recording();
  auto const first = simulator.allocate(12_MiB);
  auto fork = simulator;
  fork.free(first);
  auto const other = fork.allocate(4_MiB);
  EXPECT_TRUE(fork.holds(other));
  EXPECT_TRUE(simulator.holds(first));
  EXPECT_FALSE(fork.holds(first));
  auto const same_place = simulator.allocate(12_MiB);
  auto again = simulator;
  EXPECT_EQ(simulator.address_of(simulator.allocate(50_MiB)), again.address_of(again.allocate(50_MiB)));
  EXPECT_TRUE(simulator.holds(same_place));
  EXPECT_EQ(simulator.statistics(), again.statistics());
  EXPECT_EQ(simulator.broken_invariant() + fork.broken_invariant() + again.broken_invariant(), "");
}

TEST(CachingAllocatorSimulator, MisuseIsSaidAndChangesNothing) {
  auto simulator = recording();
  auto const block = simulator.allocate(1000_B);
  simulator.free(block);
  auto const before = simulator.statistics();
  EXPECT_THROW(simulator.free(block), InvalidAllocatorCall);
  EXPECT_THROW(simulator.free(BlockId{}), InvalidAllocatorCall);
  EXPECT_THROW(simulator.free(BlockId{77, 1}), InvalidAllocatorCall);
  EXPECT_THROW(simulator.record_stream(block, 1), InvalidAllocatorCall);
  EXPECT_THROW(static_cast<void>(simulator.address_of(block)), InvalidAllocatorCall);
  EXPECT_THROW(simulator.allocate(Bytes{-1}), InvalidAllocatorCall);
  EXPECT_THROW(simulator.set_limit(Bytes{-1}), InvalidAllocatorCall);
  EXPECT_THROW(simulator.release_pool({0, 9}), InvalidAllocatorCall);
  EXPECT_THROW(simulator.end_allocate_to_pool({0, 9}), InvalidAllocatorCall);
  EXPECT_THROW(simulator.begin_allocate_to_pool({0, 0}), InvalidAllocatorCall);
  auto const again = simulator.allocate(1000_B);  // in the same place
  EXPECT_THROW(simulator.free(block), InvalidAllocatorCall) << "an old name of a block that somebody else holds";
  simulator.free(again);
  EXPECT_EQ(before.reserved_bytes, simulator.statistics().reserved_bytes);
  EXPECT_EQ(simulator.broken_invariant(), "");
  AllocatorOptions options;
  options.settings.large_segment_size = 5_MiB;
  EXPECT_THROW(CachingAllocatorSimulator{options}, InvalidAllocatorSettings);
  options = {};
  options.device.total_memory = Bytes{std::int64_t{2} << 40};
  EXPECT_THROW(CachingAllocatorSimulator{options}, InvalidAllocatorCall);
}

TEST(CachingAllocatorSimulator, ZeroBytesNeverArrive) {
  auto simulator = recording();
  EXPECT_FALSE(simulator.allocate(0_B));
  EXPECT_FALSE(simulator.refused_request());
  EXPECT_EQ(simulator.statistics(), AllocatorStatistics{});
}

TEST(CachingAllocatorSimulator, AFreeInTwoHalvesIsOverWhenTheRecordingSaysSo) {
  auto simulator = recording();
  auto const block = simulator.allocate(12_MiB);
  simulator.request_free(block);
  EXPECT_FALSE(simulator.holds(block));
  EXPECT_EQ(simulator.allocated_bytes(), 0_B);
  EXPECT_EQ(simulator.statistics().active_bytes.aggregate.current, (12_MiB).count);
  simulator.allocate(12_MiB);  // not in its place
  EXPECT_EQ(simulator.reserved_bytes(), 24_MiB);
  EXPECT_EQ(simulator.segments().size(), 2U);
  EXPECT_TRUE(simulator.complete_free(block));
  EXPECT_FALSE(simulator.complete_free(block));
  simulator.allocate(12_MiB);
  EXPECT_EQ(simulator.reserved_bytes(), 24_MiB);
  EXPECT_EQ(simulator.broken_invariant(), "");
}

TEST(CachingAllocatorSimulator, AFlushCompletesWhatARecordingWouldCompleteLater) {
  auto simulator = recording();
  auto const block = simulator.allocate(12_MiB);
  simulator.set_limit(20_MiB);
  simulator.request_free(block);
  EXPECT_TRUE(simulator.allocate(16_MiB)) << "after a flush";
  EXPECT_FALSE(simulator.complete_free(block));
  EXPECT_THAT(actions_of(simulator), ElementsAre("segment_alloc", "alloc", "free_requested", "free_completed",
                                                 "segment_free", "segment_alloc", "alloc"));
}

TEST(CachingAllocatorSimulator, BlocksAndSegmentsCanBeLookedAt) {
  auto simulator = recording("", EventTiming::synchronised);
  auto const held = simulator.allocate(2_MiB);
  auto const used = simulator.allocate(3_MiB);
  simulator.record_stream(used, 9);
  simulator.free(used);
  auto const segments = simulator.segments();
  ASSERT_EQ(segments.size(), 1U);
  EXPECT_TRUE(segments[0].is_large);
  ASSERT_EQ(segments[0].blocks.size(), 3U);
  EXPECT_EQ(segments[0].blocks[0].id, held);
  EXPECT_EQ(segments[0].blocks[0].state, BlockState::allocated);
  EXPECT_EQ(segments[0].blocks[1].state, BlockState::awaiting_events);
  EXPECT_EQ(segments[0].blocks[1].requested, 3_MiB);
  EXPECT_EQ(segments[0].blocks[2].state, BlockState::free);
  EXPECT_EQ(segments[0].blocks[2].size, 15_MiB);
  simulator.synchronise();
  simulator.allocate(1_MiB);
  EXPECT_EQ(simulator.segments()[0].blocks.size() + simulator.segments()[1].blocks.size(), 4U);
}

TEST(CachingAllocatorSimulator, ARequestOfARecordingGoesToItsPrivatePool) {
  auto simulator = recording();
  PrivatePoolId const pool{0, 3};
  simulator.free(simulator.allocate(30_MiB));
  auto const inside = simulator.allocate(30_MiB, kDefaultStream, pool);
  EXPECT_EQ(simulator.reserved_bytes(), 60_MiB);
  EXPECT_EQ(simulator.events().back().pool, pool);
  simulator.free(inside);
  simulator.empty_cache();
  EXPECT_EQ(simulator.reserved_bytes(), 30_MiB) << "the pool's user has not gone";
  simulator.release_pool(pool);
  simulator.empty_cache();
  EXPECT_EQ(simulator.reserved_bytes(), 0_B);
  EXPECT_EQ(simulator.pool_use_count(pool), 0);
}

TEST(CachingAllocatorSimulator, PeaksAndSumsStartAgain) {
  auto simulator = recording();
  simulator.free(simulator.allocate(30_MiB));
  simulator.reset_peak_statistics();
  simulator.reset_accumulated_statistics();
  auto const statistics = simulator.statistics();
  EXPECT_EQ(statistics.allocated_bytes.aggregate, AllocatorStatistic{});
  EXPECT_EQ(statistics.reserved_bytes.large_pool.peak, (30_MiB).count);
  EXPECT_EQ(statistics.reserved_bytes.large_pool.allocated, 0);
}

}  // namespace
}  // namespace maxbatch::test
