#include "device/block_layout.hpp"

#include <maxbatch/simulation/trace_file.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <limits>
#include <string>

namespace maxbatch::detail {
namespace {

BlockLayout::Rules default_rules(bool expandable = false) {
  BlockLayout::Rules rules;
  rules.rounded = [](std::int64_t requested) { return (requested + 511) / 512 * 512; };
  rules.largest_split = std::numeric_limits<std::int64_t>::max();
  rules.expandable_segments = expandable;
  return rules;
}

AllocatorEvent event(TraceAction action, std::uint64_t address, std::int64_t size) {
  AllocatorEvent made;
  made.action = action;
  made.address = address;
  made.size = size;
  return made;
}

TEST(BlockLayout, HandsOutTheHeadOfAFreeBlockAndMergesOnTheWayBack) {
  BlockLayout layout(default_rules());
  layout.apply(event(TraceAction::segment_alloc, 1 << 30, 2 << 20));
  layout.apply(event(TraceAction::alloc, 1 << 30, 1000));
  layout.apply(event(TraceAction::alloc, (1 << 30) + 1024, 5));
  EXPECT_EQ(layout.totals().requested, 1005);
  EXPECT_EQ(layout.totals().allocated, 1536);
  layout.apply(event(TraceAction::free_requested, 1 << 30, 1000));
  EXPECT_EQ(layout.totals().allocated, 512);
  EXPECT_EQ(layout.totals().active, 1536);
  EXPECT_EQ(layout.handed_out(), 512);
  layout.apply(event(TraceAction::free_completed, 1 << 30, 1000));
  layout.apply(event(TraceAction::free_requested, (1 << 30) + 1024, 5));
  layout.apply(event(TraceAction::free_completed, (1 << 30) + 1024, 5));
  layout.apply(event(TraceAction::segment_free, 1 << 30, 2 << 20));
  EXPECT_TRUE(layout.is_consistent());
  EXPECT_EQ(layout.totals().reserved, 0);
}

TEST(BlockLayout, ALargeBlockIsSplitWhereMoreThanAMebibyteIsLeft) {
  constexpr std::int64_t kSegment = 20 << 20;
  for (std::int64_t const rest : {std::int64_t{1} << 20, (std::int64_t{1} << 20) + 512}) {
    BlockLayout layout(default_rules());
    layout.apply(event(TraceAction::segment_alloc, 1 << 30, kSegment));
    layout.apply(event(TraceAction::alloc, 1 << 30, kSegment - rest));
    EXPECT_EQ(layout.totals().allocated, rest > (1 << 20) ? kSegment - rest : kSegment);
  }
}

TEST(BlockLayout, NeighbouringSegmentsStayApart) {
  BlockLayout layout(default_rules());
  layout.apply(event(TraceAction::segment_alloc, 1 << 30, 2 << 20));
  layout.apply(event(TraceAction::segment_alloc, (1 << 30) + (2 << 20), 2 << 20));
  layout.apply(event(TraceAction::segment_free, (1 << 30) + (2 << 20), 2 << 20));
  layout.apply(event(TraceAction::segment_free, 1 << 30, 2 << 20));
  EXPECT_TRUE(layout.is_consistent());
  EXPECT_EQ(layout.totals().reserved, 0);
}

TEST(BlockLayout, PagesOfAnExpandableSegmentMergeAndLeave) {
  BlockLayout layout(default_rules(/*expandable=*/true));
  layout.apply(event(TraceAction::segment_map, 1 << 30, 20 << 20));
  layout.apply(event(TraceAction::segment_map, (1 << 30) + (20 << 20), 20 << 20));
  layout.apply(event(TraceAction::alloc, 1 << 30, 30 << 20));
  EXPECT_EQ(layout.totals().allocated, 30 << 20);
  layout.apply(event(TraceAction::free_requested, 1 << 30, 30 << 20));
  layout.apply(event(TraceAction::free_completed, 1 << 30, 30 << 20));
  layout.apply(event(TraceAction::segment_unmap, (1 << 30) + (20 << 20), 20 << 20));
  EXPECT_EQ(layout.totals().reserved, 20 << 20);
  layout.apply(event(TraceAction::segment_unmap, 1 << 30, 20 << 20));
  EXPECT_TRUE(layout.is_consistent());
}

TEST(BlockLayout, SaysWhenAnEventDoesNotFit) {
  for (auto const action : {TraceAction::alloc, TraceAction::free_requested, TraceAction::free_completed,
                            TraceAction::segment_free, TraceAction::segment_unmap}) {
    BlockLayout layout(default_rules());
    layout.apply(event(action, 4096, 512));
    EXPECT_FALSE(layout.is_consistent()) << to_string(action);
  }
}

TEST(BlockLayout, StartsFromWhatWasThere) {
  TraceSegment segment;
  segment.address = 1 << 30;
  segment.size = 2 << 20;
  segment.blocks = {{1 << 30, 1024, 1000, TraceBlock::State::allocated},
                    {(1 << 30) + 1024, 512, 3, TraceBlock::State::pending_free},
                    {(1 << 30) + 1536, (2 << 20) - 1536, 0, TraceBlock::State::inactive}};
  BlockLayout layout(default_rules(), {segment});
  EXPECT_EQ(layout.totals().requested, 1003);
  EXPECT_EQ(layout.totals().allocated, 1024);
  EXPECT_EQ(layout.totals().active, 1536);
  EXPECT_EQ(layout.totals().reserved, 2 << 20);
  EXPECT_EQ(layout.handed_out(), 0) << "it was there before";
}

/// Recordings of an H200 with the allocator's own peaks at several moments.
TEST(BlockLayout, HasThePeaksThatTheAllocatorHadInEveryRecording) {
  namespace fs = std::filesystem;
  std::vector<fs::path> files;
  for (auto const& folder : {fs::path(MAXBATCH_TEST_DATA_DIR) / "traces",
                             fs::path(MAXBATCH_TEST_DATA_DIR) / "../../../shared/data/traces"}) {
    if (!fs::exists(folder)) { continue; }
    for (auto const& entry : fs::directory_iterator(folder)) {
      if (entry.path().string().find(".csv") != std::string::npos) { files.push_back(entry.path()); }
    }
  }
  if (files.empty()) { GTEST_SKIP() << "no recordings are here"; }
  int compared = 0;
  for (auto const& file : files) {
    AllocationTrace trace;
    try {
      trace = read_allocation_trace(file.string());
    } catch (TraceError const& error) {
      ASSERT_NE(std::string(error.what()).find("zlib"), std::string::npos) << error.what();
      continue;  // built without zlib
    }
    bool const expandable = std::any_of(trace.events.begin(), trace.events.end(), [](TraceEvent const& known) {
      return known.action == TraceAction::segment_map;
    });
    // Some were recorded without these; they never wait for other streams.
    bool const says_requests = std::any_of(trace.events.begin(), trace.events.end(), [](TraceEvent const& known) {
      return known.action == TraceAction::free_requested;
    });
    BlockLayout layout(default_rules(expandable), trace.initial_segments);
    std::int64_t allocated_peak = 0;
    std::int64_t reserved_peak = 0;
    auto mark = trace.marks.begin();
    for (std::size_t i = 0; i <= trace.events.size(); ++i) {
      for (; mark != trace.marks.end() && mark->event == i; ++mark) {
        if (auto const known = mark->statistic("allocated_peak")) {
          EXPECT_EQ(allocated_peak, *known) << file << " at " << mark->label;
          EXPECT_EQ(reserved_peak, mark->statistic("reserved_peak")) << file << " at " << mark->label;
          ++compared;
        }
      }
      if (i == trace.events.size()) { break; }
      auto const& next = trace.events[i];
      if (!says_requests && next.action == TraceAction::free_completed) {
        layout.apply(event(TraceAction::free_requested, next.address, next.size));
      }
      layout.apply(event(next.action, next.address, next.size));
      allocated_peak = std::max(allocated_peak, layout.totals().allocated);
      reserved_peak = std::max(reserved_peak, layout.totals().reserved);
    }
    EXPECT_TRUE(layout.is_consistent()) << file;
  }
  RecordProperty("marks", compared);
}

}  // namespace
}  // namespace maxbatch::detail
