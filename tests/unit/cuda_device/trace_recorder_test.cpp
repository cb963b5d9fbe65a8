#include "card_test.hpp"
#include <maxbatch/device/trace_recorder.hpp>
#include <maxbatch/search/errors.hpp>

#include <c10/cuda/CUDACachingAllocator.h>

#include <gtest/gtest.h>

#include <map>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace maxbatch::test {
namespace {

using namespace literals;
using Kind = TraceMark::Kind;
using TraceRecorderTest = CardTest;

std::map<TraceAction, std::int64_t> counts_of(AllocationTrace const& trace) {
  std::map<TraceAction, std::int64_t> counts;
  for (auto const& event : trace.events) { ++counts[event.action]; }
  return counts;
}

TEST_F(TraceRecorderTest, RecordsWhatTheAllocatorsOwnHistoryRecords) {
  using Entry = allocator::TraceEntry;
  auto const live = bytes_of_card(7000);
  allocator::recordHistory(true, nullptr, 1 << 20, c10::CachingDeviceAllocator::RecordContext::NEVER, true, {});
  TraceRecorder recorder(0, 1 << 16);
  allocator::setMemoryFraction(
      (static_cast<double>(reserved_now()) + (150 << 20) + 0.5) / static_cast<double>(device->describe().total.count),
      0);
  {
    std::vector<c10::DataPtr> held;
    for (int i = 1; i < 400; ++i) {
      held.push_back(bytes_of_card(static_cast<std::size_t>(i) * 3001));
      if (i % 50 == 0) { held.clear(); }
    }
    EXPECT_THROW(bytes_of_card(200 << 20), c10::OutOfMemoryError);
  }
  allocator::emptyCache();
  allocator::setMemoryFraction(1.0, 0);
  auto const trace = recorder.finish();
  auto const history = allocator::snapshot().device_traces.at(0);
  allocator::recordHistory(false, nullptr, 1, c10::CachingDeviceAllocator::RecordContext::NEVER, true, {});

  std::vector<Entry> since;  // the recording began with a snapshot, and history ends with one
  bool begun = false;
  for (auto const& entry : history) {
    if (begun) { since.push_back(entry); }
    begun = begun || entry.action_ == Entry::SNAPSHOT;
  }
  if (!since.empty() && since.back().action_ == Entry::SNAPSHOT) { since.pop_back(); }
  ASSERT_EQ(trace.events.size(), since.size());
  for (std::size_t i = 0; i < since.size(); ++i) {
    ASSERT_EQ(trace.events[i].address, since[i].addr_) << i;
    ASSERT_EQ(trace.events[i].size, static_cast<std::int64_t>(since[i].size_)) << i;
  }
  auto counts = counts_of(trace);
  EXPECT_EQ(counts[TraceAction::alloc], 399);
  EXPECT_EQ(counts[TraceAction::free_requested], 399);
  EXPECT_EQ(counts[TraceAction::oom], 1);
  ASSERT_EQ(trace.initial_segments.size(), 1U);
  EXPECT_EQ(trace.initial_segments[0].blocks.at(0).requested_size, 7000);
  EXPECT_EQ(trace.world, is_dry() ? TraceWorld::dry : TraceWorld::measured);
}

TEST_F(TraceRecorderTest, MarksStepsAndPhasesOfATrialByThemselves) {
  auto window = device->open_trial();
  TraceRecorder recorder(0, 1000);
  window->enter_phase(Phase::setup);
  auto const model = bytes_of_card(1 << 20);
  window->enter_phase(Phase::other);
  window->begin_step(0);
  window->enter_phase(Phase::forward);
  auto const memory = bytes_of_card(3 << 20);
  window->enter_phase(Phase::other);
  window->end_step(0);
  auto const trace = recorder.finish();
  std::string said;
  for (auto const& mark : trace.marks) {
    said += std::to_string(mark.event) + " " + std::string(to_string(mark.kind)) + " " + mark.label + "\n";
  }
  EXPECT_EQ(said,
            "0 phase_begin setup\n2 phase_end setup\n2 step_begin 0\n2 phase_begin forward\n4 phase_end forward\n"
            "4 step_end 0\n4 statistics step0\n");
  EXPECT_EQ(trace.last_statistic("allocated_peak"), (1 << 20) + (3 << 20));
  EXPECT_EQ(trace.last_statistic("reserved_peak"), reserved_now());
}

TEST_F(TraceRecorderTest, CountsWhatItHasNoRoomFor) {
  TraceRecorder recorder(0, 10);
  for (int i = 0; i < 20; ++i) { bytes_of_card(512); }  // 3 events each, and a segment
  EXPECT_EQ(recorder.event_count(), 10U);
  EXPECT_EQ(recorder.lost_events(), 52U);
  auto const trace = recorder.finish();
  EXPECT_EQ(trace.last_statistic("lost_events"), 52);
  EXPECT_THROW(recorder.finish(), std::logic_error);
}

TEST_F(TraceRecorderTest, OneAtATimeAndNotWithoutRoom) {
  EXPECT_THROW(TraceRecorder(0, 0), InvalidArgument);
  TraceRecorder recorder;
  EXPECT_THROW(TraceRecorder(), std::logic_error);
  recorder.finish();
  EXPECT_NO_THROW(TraceRecorder());
}

TEST_F(TraceRecorderTest, ComesAndGoesWhileThreadsAllocate) {
  std::atomic<bool> stop{false};
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t) {
    threads.emplace_back([&] {
      while (!stop) { bytes_of_card(4096); }
    });
  }
  for (int i = 0; i < 50; ++i) {
    TraceRecorder recorder(0, 1 << 12);
    auto const window = device->open_trial();
    EXPECT_GE(window->evidence().peaks.reserved.count, 0);
    recorder.finish();
  }
  stop = true;
  for (auto& thread : threads) { thread.join(); }
  EXPECT_TRUE(device->peaks_are_exact());
}

}  // namespace
}  // namespace maxbatch::test
