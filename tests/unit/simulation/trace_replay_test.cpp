#include "support/recordings.hpp"
#include <maxbatch/simulation/replay_preparation.hpp>
#include <maxbatch/simulation/trace_replay.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <random>
#include <string>
#include <vector>

namespace maxbatch::test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr std::int64_t kMiB = std::int64_t{1} << 20;

TraceReplay replay_of(AllocationTrace const& trace, ReplayOptions const& options = {}) {
  return TraceReplay(make_replay_program(trace, "it"), options);
}

/// Peaks as torch.cuda.memory_stats() told them in the recorded process.
void expect_peaks(ReplayOutcome const& outcome, std::int64_t requested, std::int64_t allocated, std::int64_t reserved) {
  EXPECT_TRUE(outcome.fits);
  EXPECT_EQ(outcome.statistics.requested_bytes.aggregate.peak, requested);
  EXPECT_EQ(outcome.statistics.allocated_bytes.aggregate.peak, allocated);
  EXPECT_EQ(outcome.statistics.reserved_bytes.aggregate.peak, reserved);
}

TEST(TraceReplay, ReachesTheRecordedPeaks) {
  for (auto const* name : {"recordings/gpt2-b1.csv.gz", "recordings/resnet50-sgd-b8.csv.gz"}) {
    auto const trace = recording(name);
    auto const outcome = replay_of(trace).run();
    EXPECT_TRUE(outcome.fits);
    EXPECT_FALSE(outcome.left_recording);
    EXPECT_EQ(outcome.statistics.reserved_bytes.aggregate.peak, trace.last_statistic("reserved_peak")) << name;
    EXPECT_EQ(outcome.statistics.allocated_bytes.aggregate.peak, trace.last_statistic("allocated_peak")) << name;
  }
}

TEST(TraceReplay, SnapshotsReachThePeaksOfTheirProcess) {
  expect_peaks(replay_of(recording("snapshots/plain.pickle.gz")).run(), 357949672, 357953024, 432013312);
  expect_peaks(replay_of(recording("snapshots/settings.pickle.gz")).run(), 357949672, 357953024, 432013312);
  // Whose history began late, or was cut short.
  expect_peaks(replay_of(recording("snapshots/late.pickle.gz")).run(), 417994076, 420871680, 482344960);
  expect_peaks(replay_of(recording("snapshots/truncated.pickle.gz")).run(), 417994076, 420871680, 482344960);
  expect_peaks(replay_of(recording("snapshots/expandable_truncated.pickle.gz")).run(), 417994076, 417998336, 507510784);
}

TEST(TraceReplay, UnderTheRecordedLimitTheFlushesAreTheRecordedOnes) {
  ReplayOptions options;
  options.limit = Bytes{7525 * kMiB};
  auto const trace = recording("recordings/resnet50-r0q25-b64-cap7525MiB.csv.gz");
  auto const replay = replay_of(trace, options);
  auto const outcome = replay.run();
  EXPECT_TRUE(outcome.fits);
  EXPECT_FALSE(outcome.left_recording) << "other segments than the recorded ones were bought";
  EXPECT_TRUE(replay.program().had_flushes);
  EXPECT_EQ(replay.program().empty_cache_calls, 0);
  EXPECT_EQ(outcome.statistics.num_alloc_retries, 2);
  EXPECT_LE(outcome.statistics.reserved_bytes.aggregate.peak, 7525 * kMiB);

  // As many segments were given back.
  std::int64_t freed = 0;
  for (auto const& event : trace.events) { freed += event.action == TraceAction::segment_free ? 1 : 0; }
  EXPECT_EQ(outcome.statistics.num_device_free, freed);

  auto const without = replay.run(std::nullopt);
  EXPECT_TRUE(without.left_recording);
  EXPECT_EQ(without.statistics.num_alloc_retries, 0);
}

TEST(TraceReplay, ARefusalThatEndedTheProgramIsOneAgain) {
  ReplayOptions options;
  options.limit = Bytes{8273 * kMiB};
  auto const replay = replay_of(recording("recordings/gpt-r0q25-b8-cap8273MiB.csv.gz"), options);
  EXPECT_TRUE(replay.program().ends_in_refusal);
  auto const outcome = replay.run();
  EXPECT_FALSE(outcome.fits);
  ASSERT_TRUE(outcome.refused);
  EXPECT_EQ(outcome.refused->requested, Bytes{1132189696});
  EXPECT_TRUE(replay.run(std::nullopt).fits);
}

TEST(TraceReplay, ARefusalThatWasSurvivedIsSurvivedAgain) {
  auto const trace = recordings_in("snapshots/two.pickle.gz")[0];
  ReplayOptions options;
  options.limit = Bytes{200 * kMiB};
  auto const replay = replay_of(trace, options);
  EXPECT_EQ(replay.program().survived_refusals, 1);
  auto const outcome = replay.run();
  EXPECT_TRUE(outcome.fits);
  EXPECT_EQ(outcome.survived_refusals, 1);
  EXPECT_FALSE(outcome.left_recording);
  EXPECT_EQ(outcome.statistics.num_ooms, 1);
  // Where it is served, it is given back.
  auto const without = replay.run(std::nullopt);
  EXPECT_EQ(without.survived_refusals, 0);
  EXPECT_EQ(without.statistics.allocated_bytes.aggregate.current, outcome.statistics.allocated_bytes.aggregate.current);
}

TEST(TraceReplay, AnEmptiedCacheIsToldFromAFlush) {
  EXPECT_EQ(replay_of(recording("snapshots/plain.pickle.gz")).program().empty_cache_calls, 1);
  auto const text = [](char const* after) {
    return parse_allocation_traces(std::string("segment_alloc,1073741824,20971520,0\n"
                                               "alloc,1073741824,20971520,0\n"
                                               "free_completed,1073741824,20971520,0\n"
                                               "segment_free,1073741824,20971520,0\n") +
                                       after,
                                   "it")
        .front();
  };
  // Nothing was asked for.
  EXPECT_EQ(replay_of(text("")).program().empty_cache_calls, 1);
  // What was free would have served.
  EXPECT_EQ(
      replay_of(text("segment_alloc,2147483648,20971520,0\nalloc,2147483648,20971520,0\n")).program().empty_cache_calls,
      1);
  // It would not, and the purchase on top would have been more than was ever held.
  auto const flush = text("segment_alloc,2147483648,31457280,0\nalloc,2147483648,31457280,0\n");
  EXPECT_TRUE(replay_of(flush).program().had_flushes);
  EXPECT_EQ(replay_of(flush).program().empty_cache_calls, 0);
  // A limit that is known to be higher.
  auto roomy = flush;
  roomy.limit = Bytes{std::int64_t{1} << 30};
  EXPECT_EQ(replay_of(roomy).program().empty_cache_calls, 1);
  // More was held later on.
  auto larger = parse_allocation_traces(
                    "segment_alloc,1,20971520,0\nalloc,1,20971520,0\nfree_completed,1,20971520,0\n"
                    "segment_free,1,20971520,0\nsegment_alloc,1073741824,31457280,0\n"
                    "alloc,1073741824,31457280,0\nsegment_alloc,2147483648,41943040,0\n"
                    "alloc,2147483648,41943040,0\n",
                    "it")
                    .front();
  EXPECT_EQ(replay_of(larger).program().empty_cache_calls, 1);
}

TEST(TraceReplay, ContradictionsAreToldWithTheEvent) {
  auto const complaint = [](char const* text) -> std::string {
    try {
      make_replay_program(parse_allocation_traces(text, "it").front(), "it");
    } catch (TraceError const& error) { return error.what(); }
    return "";
  };
  EXPECT_THAT(complaint("alloc,1,5,0\nfree_completed,2,5,0\n"),
              HasSubstr("it: event 1: free_completed of 5 bytes at 2: nothing at this address is in use"));
  EXPECT_THAT(complaint("alloc,1,5,0\nalloc,1,5,0\n"),
              HasSubstr("event 1: alloc of 5 bytes at 1: a block at this address"));
  EXPECT_THAT(complaint("alloc,1,5,0\nsegment_free,1,5,0\n"), HasSubstr("more is given back than was bought"));
  std::string large;
  for (int i = 0; i < 5000; ++i) {
    large += "alloc," + std::to_string(i) + ",1125899906842624,0\nfree_completed," + std::to_string(i) + ",1,0\n";
  }
  EXPECT_THAT(complaint(large.c_str()), HasSubstr("the requests add up to more than can be counted"));
}

TEST(TraceReplay, FragmentationAddsUpToThePeak) {
  for (auto const* name : {"recordings/gpt2-b1.csv.gz", "snapshots/plain.pickle.gz", "snapshots/truncated.pickle.gz"}) {
    auto const replay = replay_of(recording(name));
    auto const outcome = replay.run();
    auto const at_peak = replay.fragmentation(outcome, std::nullopt);
    EXPECT_EQ(at_peak.reserved.count, outcome.statistics.reserved_bytes.aggregate.peak) << name;
    EXPECT_EQ(at_peak.requested + at_peak.rounding + at_peak.split + at_peak.unused_segments, at_peak.reserved) << name;
    EXPECT_GT(at_peak.requested, Bytes{0});
  }
}

TEST(TraceReplay, WithoutRecordedAddressesTheDriversRuleIsUsed) {
  auto trace = recording("recordings/gpt2-b1.csv.gz");
  ReplayOptions options;
  options.modelled_addresses = true;
  options.placement.seed = 1;
  auto const modelled = replay_of(trace, options).run();
  EXPECT_EQ(modelled.statistics.reserved_bytes.aggregate.peak, trace.last_statistic("reserved_peak"));
  // A recording of requests alone.
  std::vector<TraceEvent> requests;
  for (auto const& event : trace.events) {
    if (event.action != TraceAction::segment_alloc) { requests.push_back(event); }
  }
  trace.events = requests;
  trace.marks.clear();
  auto const bare = replay_of(trace).run();
  EXPECT_TRUE(bare.modelled_addresses);
  EXPECT_GT(bare.statistics.reserved_bytes.aggregate.peak, 0);
}

/// Each multiple of 2 MiB tried, as the definition says it.
FittingLimits every_limit(TraceReplay const& replay) {
  FittingLimits limits;
  auto const unlimited = replay.run(std::nullopt);
  limits.unlimited_peak = Bytes{unlimited.statistics.reserved_bytes.aggregate.peak};
  if (!unlimited.fits) { return limits; }
  // Beyond the peak, since an expandable segment is asked about more than is mapped.
  auto const top = (limits.unlimited_peak.count / (2 * kMiB) + 40) * (2 * kMiB);
  auto all_above_fit = true;
  for (auto limit = top; limit > 0; limit -= 2 * kMiB) {
    if (!replay.run(Bytes{limit}).fits) {
      all_above_fit = false;
    } else if (all_above_fit) {
      limits.smallest = Bytes{limit};
    } else {
      limits.isolated_fits.insert(limits.isolated_fits.begin(), Bytes{limit});
    }
  }
  return limits;
}

void expect_same_limits(TraceReplay const& replay, std::string const& what) {
  auto const found = fitting_limits(replay);
  auto const tried = every_limit(replay);
  EXPECT_EQ(found.unlimited_peak, tried.unlimited_peak) << what;
  EXPECT_EQ(found.smallest, tried.smallest) << what;
  EXPECT_EQ(found.isolated_fits, tried.isolated_fits) << what;
}

/// Requests and frees at random, in a few sizes, so that flushes leave gaps that some fit and others do not.
AllocationTrace random_trace(std::uint64_t seed, bool expandable) {
  std::mt19937_64 random(seed);
  auto const below = [&](std::size_t end) { return static_cast<std::size_t>(random() % end); };
  AllocationTrace trace;
  trace.allocator_settings = expandable ? "expandable_segments:True" : "";
  std::vector<std::int64_t> sizes;
  for (int i = 0; i < 6; ++i) { sizes.push_back(static_cast<std::int64_t>(1 + below(i < 2 ? 900000 : 24000000))); }
  std::vector<TraceEvent> live;
  for (int i = 0; i < 160; ++i) {
    TraceEvent event;
    if (!live.empty() && below(5) < 2) {
      auto const which = live.begin() + static_cast<std::ptrdiff_t>(below(live.size()));
      event = *which;
      event.action = TraceAction::free_completed;
      live.erase(which);
    } else {
      event.address = 1000000000 + static_cast<std::uint64_t>(i) * 100000000;
      event.size = sizes[below(sizes.size())];
      if (seed % 3 == 0 && below(4) == 0) { event.stream = trace.stream_index(77); }
      live.push_back(event);
    }
    trace.events.push_back(event);
  }
  return trace;
}

TEST(FittingLimits, AreThoseOfTryingEveryLimit) {
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    expect_same_limits(replay_of(random_trace(seed, /*expandable=*/seed % 4 == 3)), "seed " + std::to_string(seed));
  }
  // With a limit below the smallest under which it fits as well.
  expect_same_limits(replay_of(recording("recordings/resnet50-sgd-b8.csv.gz")), "resnet50");
  expect_same_limits(replay_of(recording("snapshots/late.pickle.gz")), "late");
  expect_same_limits(replay_of(recording("snapshots/plain.pickle.gz")), "plain");
}

TEST(FittingLimits, OfARecordedTraining) {
  auto const limits = fitting_limits(replay_of(recording("recordings/resnet50-sgd-b8.csv.gz")));
  EXPECT_EQ(limits.unlimited_peak, Bytes{1170210816});
  ASSERT_TRUE(limits.smallest);
  EXPECT_EQ(*limits.smallest, Bytes{1064 * kMiB});
  EXPECT_EQ(limits.isolated_fits.size(), 1U);
  EXPECT_LT(limits.isolated_fits.front(), *limits.smallest);
  EXPECT_LT(limits.runs, 60);
}

}  // namespace
}  // namespace maxbatch::test
