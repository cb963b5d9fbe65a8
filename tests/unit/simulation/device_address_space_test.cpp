#include <maxbatch/simulation/caching_allocator_simulator.hpp>
#include <maxbatch/simulation/device_address_space.hpp>
#include <maxbatch/simulation/driver_events.hpp>
#include <maxbatch/simulation/modelled_peak.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <set>
#include <vector>

namespace maxbatch::test {
namespace {

using namespace literals;

DeviceAddressSpace modelled(std::uint64_t seed) {
  DriverPlacement placement;
  placement.seed = seed;
  return DeviceAddressSpace::modelled(placement);
}

TEST(DeviceAddressSpace, ARecordingsAddressesAreGivenWhileTheSameIsBought) {
  auto const high = DeviceAddress{1} << 46;
  auto space = DeviceAddressSpace::recorded({{high, 2_MiB}, {high - 40, 20_MiB}, {high + 90, 4_MiB}});
  EXPECT_EQ(space.allocate(2_MiB), high);
  EXPECT_EQ(space.allocate(20_MiB), high - 40);
  space.release(high);
  EXPECT_FALSE(space.diverged());
  auto const other = space.allocate(6_MiB);
  EXPECT_TRUE(space.diverged());
  ASSERT_TRUE(other);
  EXPECT_LT(*other, high - 40);
  auto const later = space.allocate(4_MiB);  // of the same size as a recorded one, but the recording is left
  ASSERT_TRUE(later);
  EXPECT_LT(*later, high - 40);
}

TEST(DeviceAddressSpace, NewPlacesNeverOverlapRecordedOnes) {
  for (auto const base : {DeviceAddress{12918456320}, DeviceAddress{1} << 46}) {
    auto space = DeviceAddressSpace::recorded({{base, 2_MiB}});
    EXPECT_EQ(space.allocate(2_MiB), base);
    std::set<DeviceAddress> given;
    for (int i = 0; i < 200; ++i) {
      auto const address = space.allocate(2048_MiB);
      ASSERT_TRUE(address);
      EXPECT_TRUE(*address >= base + (2 << 20) || *address + (std::uint64_t{2} << 30) <= base);
      EXPECT_TRUE(given.insert(*address).second);
    }
  }
}

TEST(DeviceAddressSpace, APagesPlaceSettlesAReservation) {
  auto const base = DeviceAddress{12918456320};
  auto space = DeviceAddressSpace::recorded({{base, 20_MiB}, {base + (20 << 20), 20_MiB}});
  auto const reserved = space.reserve(100000_MiB);
  EXPECT_EQ(space.settled(reserved, 20_MiB), base);
  space.note_mapped(base, 20_MiB);
  space.note_mapped(base + (20 << 20), 20_MiB);
  EXPECT_FALSE(space.diverged());
  space.note_mapped(base + (40 << 20), 20_MiB);
  EXPECT_TRUE(space.diverged());
}

TEST(DeviceAddressSpace, SeedsDifferInTheSetUpOnly) {
  std::set<std::vector<DeviceAddress>> drawn;
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    auto space = modelled(seed);
    auto same = modelled(seed);
    std::vector<DeviceAddress> set_up;
    for (int segment = 0; segment < 16; ++segment) {
      set_up.push_back(space.allocate(28_MiB).value());
      EXPECT_EQ(same.allocate(28_MiB).value(), set_up.back());
    }
    drawn.insert(set_up);
    space.grow_local_memory();
    auto const a = space.allocate(600_MiB).value();
    auto const b = space.allocate(600_MiB).value();
    EXPECT_EQ(a - b, std::uint64_t{608} << 20);
  }
  EXPECT_GT(drawn.size(), 3U);
}

TEST(DeviceAddressSpace, TheOldLocalMemoryIsFilledOnceItHasMoved) {
  auto space = modelled(0);
  auto const corner = space.allocate(2_MiB).value();  // behind local memory, in its reservation
  EXPECT_GT(corner, space.allocate(30_MiB).value());
  space.grow_local_memory();
  auto const inside = space.allocate(100_MiB).value();
  EXPECT_EQ(corner - inside, std::uint64_t{414} << 20);
  space.grow_local_memory();  // only once
  EXPECT_EQ(space.allocate(100_MiB).value() - inside, std::uint64_t{100} << 20);
}

TEST(DriverEventSchedule, HappensAheadOfTheRequestsThatItNames) {
  auto with = modelled(0);
  auto without = modelled(0);
  DriverEvents events;
  events.local_memory_grows_before = 2;
  events.cublas_handle_before = {2, 5};
  DriverEventSchedule schedule(events);
  for (std::int64_t request = 0; request < 2; ++request) {
    schedule.before_request(request, with);
    EXPECT_EQ(with.allocate(40_MiB), without.allocate(40_MiB));
  }
  schedule.before_request(2, with);
  without.grow_local_memory();
  without.create_cublas_handle();
  EXPECT_EQ(with.allocate(40_MiB), without.allocate(40_MiB));
  schedule.before_request(7, with);  // requests may have been skipped
  without.create_cublas_handle();
  EXPECT_EQ(with.allocate(40_MiB), without.allocate(40_MiB));
  schedule.before_request(1000, with);
  EXPECT_EQ(with.allocate(40_MiB), without.allocate(40_MiB));
}

TEST(DriverEventSchedule, ChangesNothingForRecordedAddresses) {
  auto const base = DeviceAddress{1} << 46;
  auto space = DeviceAddressSpace::recorded({{base, 2_MiB}, {base + 4000, 2_MiB}});
  space.grow_local_memory();
  space.create_cublas_handle();
  EXPECT_EQ(space.allocate(2_MiB), base);
  EXPECT_EQ(space.allocate(2_MiB), base + 4000);
}

TEST(ModelledPeak, SaysTheMostFrequentAndTheSpread) {
  std::vector<std::optional<Bytes>> const answers = {5_MiB, 7_MiB, std::nullopt, 7_MiB, 6_MiB};
  auto const peak = modelled_peak([&](std::uint64_t seed) { return answers.at(seed - 1); }, 5);
  EXPECT_EQ(peak.most_frequent, 7_MiB);
  EXPECT_EQ(peak.lowest, 5_MiB);
  EXPECT_EQ(peak.highest, 7_MiB);
  EXPECT_EQ(peak.draws, 5);
  EXPECT_EQ(peak.out_of_memory, 1);
  EXPECT_TRUE(peak.fits());
  EXPECT_FALSE(modelled_peak([](std::uint64_t) { return std::optional<Bytes>(); }).fits());
}

}  // namespace
}  // namespace maxbatch::test
