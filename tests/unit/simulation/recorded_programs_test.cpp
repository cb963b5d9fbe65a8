#include "support/recorded_files.hpp"
#include <maxbatch/simulation/driver_events.hpp>
#include <maxbatch/simulation/modelled_peak.hpp>
#include <maxbatch/simulation/replay_preparation.hpp>

#include <gtest/gtest.h>

#include <cstdlib>
#include <iostream>
#include <string>
#include <vector>

namespace maxbatch::test {
namespace {

// What an H200's allocator did, event by event: every address, every segment that was bought and given back, every refused
// request, and the peaks that it reported.
TEST(RecordedPrograms, AreReproducedByteForByte) {
  auto const paths = recorded_files();
  ASSERT_GE(paths.size(), 4U);
  std::size_t marks = 0;
  for (auto const& path : paths) {
    SCOPED_TRACE(path);
    auto const program = recorded_program(path);
    auto simulator = program.simulator(DeviceAddressSpace::recorded(program.purchases), /*record_events=*/true);
    std::vector<BlockId> blocks(program.blocks);
    auto mark = program.marks.begin();
    for (std::size_t i = 0; i <= program.calls.size(); ++i) {
      for (; mark != program.marks.end() && mark->call == i; ++mark, ++marks) {
        ASSERT_EQ(simulator.allocated_peak().count, mark->allocated_peak);
        ASSERT_EQ(simulator.reserved_peak().count, mark->reserved_peak);
        ASSERT_EQ(simulator.reserved_bytes().count, mark->reserved);
      }
      if (i == program.calls.size()) { break; }
      auto const& call = program.calls[i];
      if (call.allocates) {
        blocks[call.block] = simulator.allocate(call.size, call.stream);
      } else {
        simulator.free(blocks[call.block]);
      }
      if (i % 1000 == 0) { ASSERT_EQ(simulator.broken_invariant(), ""); }
    }
    ASSERT_EQ(simulator.broken_invariant(), "");
    std::size_t at = 0;
    for (auto event : simulator.events()) {
      if (event.action == AllocatorAction::free_requested && !program.has_free_requests) { continue; }
      ASSERT_LT(at, program.events.size());
      // Others held memory of that card, too.
      if (event.action == AllocatorAction::oom) { event.address = program.events[at].address; }
      ASSERT_EQ(to_string(event.action), to_string(program.events[at].action)) << "event " << at;
      ASSERT_EQ(event, program.events[at]) << "event " << at << ", " << to_string(event.action);
      ++at;
    }
    EXPECT_EQ(at, program.events.size());
    EXPECT_FALSE(simulator.addresses().diverged());
  }
  EXPECT_GE(marks, 12U);
  std::cout << paths.size() << " recordings, " << marks << " marks\n";
}

std::optional<Bytes> modelled_reserved_peak(RecordedProgram const& program, DriverEvents const& events,
                                            std::uint64_t seed) {
  DriverPlacement placement;
  placement.seed = seed;
  auto simulator = program.simulator(DeviceAddressSpace::modelled(placement));
  DriverEventSchedule schedule(events);
  std::vector<BlockId> blocks(program.blocks);
  std::int64_t requests = 0;
  for (auto const& call : program.calls) {
    if (call.allocates) {
      schedule.before_request(requests++, simulator.addresses());
      blocks[call.block] = simulator.allocate(call.size, call.stream);
    } else if (blocks[call.block]) {
      simulator.free(blocks[call.block]);
    } else {
      return std::nullopt;  // refused, where the recording's was not
    }
  }
  return simulator.reserved_peak();
}

// Without the recorded addresses: the driver's rule, over draws of what it leaves open. One recording is known to be missed
// (half precision loads kernels into places that nobody has modelled).
TEST(RecordedPrograms, HaveTheirReservedPeakWithModelledAddresses) {
  auto const paths = recorded_files();
  int exact = 0;
  std::int64_t worst = 0;
  for (auto const& path : paths) {
    auto const program = recorded_program(path);
    auto truth = program.simulator(DeviceAddressSpace::recorded(program.purchases));
    std::vector<BlockId> blocks(program.blocks);
    for (auto const& call : program.calls) {
      if (call.allocates) {
        blocks[call.block] = truth.allocate(call.size, call.stream);
      } else {
        truth.free(blocks[call.block]);
      }
    }
    auto const events = driver_events_of(read_allocation_trace(path));
    auto const peak = modelled_peak([&](std::uint64_t seed) { return modelled_reserved_peak(program, events, seed); });
    ASSERT_TRUE(peak.fits()) << path;
    auto const error = peak.most_frequent - truth.reserved_peak();
    exact += error == Bytes{0} ? 1 : 0;
    worst = std::max(worst, std::abs(error.count));
    if (error != Bytes{0}) { std::cout << program.name << ": " << to_string(error) << '\n'; }
  }
  std::cout << exact << " of " << paths.size() << " exact, the worst off by " << to_string(Bytes{worst}) << '\n';
  EXPECT_GE(exact * 100, static_cast<int>(paths.size()) * 95);
  EXPECT_LE(worst, std::int64_t{40} << 20);
}

}  // namespace
}  // namespace maxbatch::test
