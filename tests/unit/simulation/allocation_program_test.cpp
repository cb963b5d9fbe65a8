#include "support/synthetic_program.hpp"
#include <maxbatch/simulation/allocation_program.hpp>
#include <maxbatch/simulation/program_run.hpp>
#include <maxbatch/simulation/trace_file.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace maxbatch {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

using namespace literals;

using Kind = ProgramOperation::Kind;

AllocationTrace trace_of(std::vector<TraceEvent> events) {
  AllocationTrace trace;
  trace.events = std::move(events);
  return trace;
}

TraceEvent event(TraceAction action, std::uint64_t address, std::int64_t size) {
  TraceEvent result;
  result.action = action;
  result.address = address;
  result.size = size;
  return result;
}

TEST(AllocationProgram, IsWhatTheProgramDid) {
  auto const program =
      program_of(trace_of({event(TraceAction::segment_alloc, 4096, 2 << 20), event(TraceAction::alloc, 4096, 100),
                           event(TraceAction::alloc, 8192, 700), event(TraceAction::free_requested, 4096, 100),
                           event(TraceAction::free_completed, 4096, 100), event(TraceAction::free_requested, 8192, 700),
                           event(TraceAction::alloc, 4096, 300), event(TraceAction::free_completed, 8192, 700)}));
  ASSERT_EQ(program.requests.size(), 3U);
  EXPECT_EQ(program.requests[2].size, 300);
  EXPECT_THAT(program.operations,
              ElementsAre(ProgramOperation{Kind::allocate, 0}, ProgramOperation{Kind::allocate, 1},
                          ProgramOperation{Kind::free, 0}, ProgramOperation{Kind::request_free, 1},
                          ProgramOperation{Kind::allocate, 2}, ProgramOperation{Kind::complete_free, 1}));
  EXPECT_EQ(least_peak(program).count, 512 + 1024);
}

TEST(AllocationProgram, TellsAnEmptiedCacheFromAFlush) {
  auto const purchase = event(TraceAction::segment_alloc, 4096, 2 << 20);
  auto const given_back = event(TraceAction::segment_free, 4096, 2 << 20);
  auto const request = event(TraceAction::alloc, 4096, 100);
  EXPECT_THAT(program_of(trace_of({purchase, given_back, purchase, request})).operations,
              ElementsAre(ProgramOperation{Kind::allocate, 0}))
      << "given back in order to buy";
  EXPECT_THAT(program_of(trace_of({purchase, given_back, given_back, request})).operations,
              ElementsAre(ProgramOperation{Kind::empty_cache, 0}, ProgramOperation{Kind::allocate, 0}))
      << "given back, and nothing was bought";
}

TEST(AllocationProgram, RefusesWhatCannotHaveHappened) {
  EXPECT_THAT([] { program_of(trace_of({event(TraceAction::free_requested, 4096, 100)})); },
              ThrowsMessage<TraceError>(HasSubstr("event 0: the block at 0x1000 is freed and not held")));
  EXPECT_THAT(
      [] {
        program_of(trace_of({event(TraceAction::alloc, 4096, 8), event(TraceAction::alloc, 4096, 8)}));
      },
      ThrowsMessage<TraceError>(HasSubstr("event 1: the block at 0x1000 is handed out twice")));
}

TEST(ProgramRun, WrittenDownIsARecordingOfTheSameProgram) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    auto const program = test::SyntheticProgram(seed).at(5);
    ProgramRunOptions options;
    options.limit = 40_GiB;
    auto const trace = trace_of_run(program, driver_events_of(program), options);
    EXPECT_EQ(trace.world, TraceWorld::simulated);
    auto const again = program_of(trace);
    EXPECT_EQ(again.operations, program.operations) << "seed " << seed;
    EXPECT_EQ(again.requests, program.requests) << "seed " << seed;
  }
}

/// Three requests, of which the first two set the program up.
AllocationProgram with_mark(TraceMark::Kind kind, std::uint64_t operation) {
  AllocationProgram program;
  for (std::uint32_t i = 0; i < 3; ++i) {
    program.requests.emplace_back();
    program.operations.push_back({ProgramOperation::Kind::allocate, i});
  }
  TraceMark mark;
  mark.kind = kind;
  mark.event = operation;
  program.marks.push_back(mark);
  return program;
}

TEST(DriverEventsOf, TheSetUpEndsAtTheFirstMarkUnlessThatEndsAStep) {
  constexpr std::int64_t after_set_up = 2;
  EXPECT_EQ(driver_events_of(with_mark(TraceMark::Kind::step_begin, 2)).local_memory_grows_before, 2 + after_set_up);
  auto const ends_a_step = with_mark(TraceMark::Kind::step_end, 3);
  EXPECT_EQ(driver_events_of(ends_a_step, 1).local_memory_grows_before, 1 + after_set_up);
  EXPECT_EQ(driver_events_of(ends_a_step).local_memory_grows_before, std::nullopt);
}

TEST(ProgramRun, StopsAtTheRequestThatIsRefused) {
  AllocationProgram program;
  for (std::uint32_t i = 0; i < 4; ++i) {
    program.requests.push_back({30 << 20, 0, 0, 0, false});
    program.operations.push_back({Kind::allocate, i});
  }
  ProgramRunOptions options;
  options.limit = 100_MiB;
  auto const run = run_program(program, {}, options);
  EXPECT_FALSE(run.fits);
  EXPECT_EQ(run.failed_request, 3U);
  EXPECT_EQ(run.reserved_peak, 90_MiB);
  ASSERT_TRUE(run.refused);
  EXPECT_EQ(run.refused->requested, 30_MiB);

  program.requests[3].is_workspace = true;
  options.workspaces_are_elastic = true;
  auto const elastic = run_program(program, {}, options);
  EXPECT_TRUE(elastic.fits);
  EXPECT_EQ(elastic.refused_workspaces, 1);
  EXPECT_EQ(trace_of_run(program, {}, options).events.back().action, TraceAction::oom);
}

}  // namespace
}  // namespace maxbatch
