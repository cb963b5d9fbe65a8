#include "support/slow_allocator.hpp"

#include <maxbatch/simulation/caching_allocator_simulator.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

namespace maxbatch::test {
namespace {

constexpr std::uint64_t kMib = std::uint64_t{1} << 20;

struct Move {
  enum class Kind { allocate, free, request_free, complete_free, flush, limit } kind = Kind::allocate;
  std::uint64_t bytes = 0;
  StreamHandle stream = 0;
  std::size_t block = 0;  // the number of its request
};

struct SlowSums {
  std::int64_t reserved = 0;
  std::int64_t allocated = 0;
  std::int64_t active = 0;
  std::int64_t inactive_split = 0;
  int retries = 0;
};

struct SlowRun {
  std::vector<Move> moves;
  std::vector<bool> served;  // of each move
  std::vector<SlowSums> sums;
  std::vector<AllocatorEvent> events;
  std::vector<SegmentPurchase> purchases;
};

/// Draws a program while it runs, since what can be freed depends on what was refused and flushed.
SlowRun run_slowly(SlowAllocator& slow, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  auto const below = [&](std::uint64_t end) { return random() % end; };
  auto const size = [&]() -> std::uint64_t {
    switch (below(8)) {
      case 0: return 1 + below(2048);
      case 1:
      case 2: return 1 + below(kMib + 2048);
      case 3: return kMib - 512 + below(1024);
      case 4: return 10 * kMib - 2 + below(4);
      case 5: return (1 + below(8)) * kMib * 5 / 2;
      default: return 1 + below(40 * kMib);
    }
  };
  SlowRun run;
  std::vector<DeviceAddress> address_of;  // by number of the request
  std::vector<std::size_t> held;
  std::vector<std::size_t> waiting;
  auto const take = [&](std::vector<std::size_t>& from) {
    auto const at = from.begin() + static_cast<std::ptrdiff_t>(below(from.size()));
    auto const block = *at;
    from.erase(at);
    return block;
  };
  for (int i = 0; i < 250; ++i) {
    Move move;
    bool served = true;
    auto const choice = below(100);
    if (choice < 36 && !held.empty()) {
      move.kind = choice < 6 ? Move::Kind::request_free : Move::Kind::free;
      move.block = take(held);
      slow.request_free(address_of[move.block]);
      if (move.kind == Move::Kind::free) {
        slow.complete_free(address_of[move.block]);
      } else {
        waiting.push_back(move.block);
      }
    } else if (choice < 42 && !waiting.empty()) {
      move.kind = Move::Kind::complete_free;
      move.block = take(waiting);
      served = slow.is_waiting(address_of[move.block]);
      if (served) { slow.complete_free(address_of[move.block]); }
    } else if (choice < 43) {
      move.kind = Move::Kind::flush;
      slow.flush();
      waiting.clear();
    } else if (choice < 46) {
      move.kind = Move::Kind::limit;
      move.bytes = below(300 * kMib);
      slow.limit = move.bytes;
    } else {
      move.bytes = size();
      move.stream = below(3) == 0 ? 7 : 0;
      move.block = address_of.size();
      auto const before = slow.retries;
      auto const address = slow.allocate(move.bytes, move.stream);
      served = address.has_value();
      address_of.push_back(address.value_or(0));
      if (served) { held.push_back(move.block); }
      if (slow.retries != before) { waiting.clear(); }
    }
    run.moves.push_back(move);
    run.served.push_back(served);
    run.sums.push_back({slow.reserved(), slow.allocated(), slow.active(), slow.inactive_split(), slow.retries});
  }
  run.events = slow.events;
  for (auto const& event : run.events) {
    if (event.action == AllocatorAction::segment_alloc) { run.purchases.push_back({event.address, event.size}); }
  }
  return run;
}

void expect_the_same_from_the_simulator(SlowRun const& run, AllocatorSettings const& settings) {
  AllocatorOptions options;
  options.settings = settings;
  options.record_events = true;
  CachingAllocatorSimulator simulator(options, DeviceAddressSpace::recorded(run.purchases));
  std::vector<BlockId> blocks;
  for (std::size_t i = 0; i < run.moves.size(); ++i) {
    auto const& move = run.moves[i];
    switch (move.kind) {
      case Move::Kind::allocate:
        blocks.push_back(simulator.allocate(Bytes{static_cast<std::int64_t>(move.bytes)}, move.stream));
        ASSERT_EQ(static_cast<bool>(blocks.back()), run.served[i]) << "move " << i;
        break;
      case Move::Kind::free: simulator.free(blocks[move.block]); break;
      case Move::Kind::request_free: simulator.request_free(blocks[move.block]); break;
      case Move::Kind::complete_free:
        ASSERT_EQ(simulator.complete_free(blocks[move.block]), run.served[i]) << "move " << i;
        break;
      case Move::Kind::flush: simulator.empty_cache(); break;
      case Move::Kind::limit: simulator.set_limit(Bytes{static_cast<std::int64_t>(move.bytes)}); break;
    }
    if (i % 8 == 0) { ASSERT_EQ(simulator.broken_invariant(), "") << "move " << i; }
    auto const statistics = simulator.statistics();
    auto const& sums = run.sums[i];
    ASSERT_EQ(statistics.reserved_bytes.aggregate.current, sums.reserved) << "move " << i;
    ASSERT_EQ(statistics.allocated_bytes.aggregate.current, sums.allocated) << "move " << i;
    ASSERT_EQ(statistics.active_bytes.aggregate.current, sums.active) << "move " << i;
    ASSERT_EQ(statistics.inactive_split_bytes.aggregate.current, sums.inactive_split) << "move " << i;
    ASSERT_EQ(statistics.num_alloc_retries, sums.retries) << "move " << i;
  }
  auto events = simulator.take_events();
  for (auto& event : events) {
    if (event.action == AllocatorAction::oom) { event.address = 0; }
  }
  ASSERT_EQ(events.size(), run.events.size());
  for (std::size_t i = 0; i < events.size(); ++i) { ASSERT_EQ(events[i], run.events[i]) << "event " << i; }
  EXPECT_FALSE(simulator.addresses().diverged());
}

TEST(SlowAllocator, DoesWhatTheSimulatorDoes) {
  std::int64_t refusals = 0;
  for (std::uint64_t seed = 1; seed <= 150; ++seed) {
    SlowAllocator slow(seed);
    std::string settings;
    if (seed % 4 == 1) {
      slow.divisions = std::uint64_t{1} << (seed % 7);
      settings += "roundup_power2_divisions:" + std::to_string(slow.divisions) + ",";
    }
    if (seed % 3 == 1) {
      slow.large_segment = slow.max_rounding = 32 * kMib;
      settings += "large_segment_size_mb:32,";
    }
    if (seed % 5 == 1) {
      slow.max_split = 34 * kMib;
      settings += "max_split_size_mb:34,";
    }
    auto const run = run_slowly(slow, seed);
    expect_the_same_from_the_simulator(run, parse_allocator_settings(settings));
    if (testing::Test::HasFatalFailure()) { FAIL() << "seed " << seed << ", settings " << settings; }
    refusals += std::count(run.served.begin(), run.served.end(), false);
  }
  EXPECT_GT(refusals, 150);
}

}  // namespace
}  // namespace maxbatch::test
