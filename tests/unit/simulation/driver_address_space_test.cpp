#include <maxbatch/simulation/driver_address_space.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <optional>
#include <set>
#include <sstream>
#include <string>
#include <vector>

namespace maxbatch::test {
namespace {

using Address = DeviceAddress;

constexpr std::uint64_t kMib = std::uint64_t{1} << 20;
constexpr DeviceAddressRange kArea{std::uint64_t{1} << 40, std::uint64_t{1} << 45};

std::vector<std::vector<std::string>> rows_of(std::string const& name) {
  std::ifstream file(std::string(MAXBATCH_TEST_DATA_DIR) + "/dry_cuda/" + name);
  std::vector<std::vector<std::string>> rows;
  for (std::string line; std::getline(file, line);) {
    if (line.empty() || line.front() == '#') { continue; }
    std::vector<std::string> row;
    std::istringstream cells(line);
    for (std::string cell; std::getline(cells, cell, ',');) { row.push_back(cell); }
    rows.push_back(row);
  }
  return rows;
}

/// The context of an H200: docs/address_space.md, section 2.
Address make_context(DriverAddressSpace& space) {
  static_cast<void>(space.allocate(70 * kMib));
  static_cast<void>(space.allocate(2 * kMib));
  return space.allocate(414 * kMib).value();
}

TEST(DriverAddressSpace, PlacesTheFirstSegmentsOfARealProcessWhereItsDriverDid) {
  DriverAddressSpace space(kArea, 0);
  make_context(space);
  auto const rows = rows_of("frcnn_first_segments.csv");
  ASSERT_EQ(rows.size(), 13U);
  std::uint64_t first = 0;
  for (auto const& row : rows) {
    auto const address = space.allocate(std::stoull(row.at(1))).value();
    if (first == 0) { first = address; }
    EXPECT_EQ(static_cast<std::int64_t>(address - first), std::stoll(row.at(0)));
  }
}

TEST(DriverAddressSpace, AnswersAsTheModelThatWasProvenOnTheDriver) {
  DriverAddressSpace space(kArea, 0);
  auto local = make_context(space);
  auto const base = local;
  int allocations = 0;
  int handles = 0;
  for (auto const& row : rows_of("driver_placement.csv")) {
    if (row.front() == "alloc") {
      auto const address = space.allocate(std::stoull(row.at(1))).value();
      ASSERT_EQ(static_cast<std::int64_t>(address - base), std::stoll(row.at(2))) << "allocation " << allocations;
      ++allocations;
    } else if (row.front() == "free") {
      ASSERT_TRUE(space.release(base + static_cast<Address>(std::stoll(row.at(1)))));
    } else if (row.front() == "grow") {
      ASSERT_TRUE(space.release(local));
      local = space.allocate(504 * kMib).value();
      static_cast<void>(space.allocate(2 * kMib));
    } else {
      if (handles++ > 0) { space.map_thread_arena(); }
      static_cast<void>(space.allocate(64 * kMib));
    }
  }
  EXPECT_GT(allocations, 200);
}

TEST(DriverAddressSpace, GivesNothingWhereNothingFits) {
  DriverAddressSpace space({0x10000000, 0x10000000 + 64 * kMib}, 0);
  EXPECT_FALSE(space.allocate(64 * kMib));  // 32 MiB more are needed for alignment
  EXPECT_TRUE(space.allocate(32 * kMib));
  EXPECT_FALSE(space.allocate(2 * kMib));
}

TEST(DriverAddressSpace, ReleasesOnlyWhatBeginsThere) {
  DriverAddressSpace space(kArea, 0);
  auto const address = space.allocate(4 * kMib).value();
  EXPECT_FALSE(space.release(address + 2 * kMib));
  EXPECT_EQ(space.allocation_around(address + 3 * kMib).value().begin, address);
  EXPECT_EQ(space.size_of(address), 4 * kMib);
  EXPECT_TRUE(space.release(address));
  EXPECT_FALSE(space.release(address));
  EXPECT_FALSE(space.allocation_around(address));
}

/// Of a set-up of segments of 28 MiB, each of which needs a reservation: which lie above the context.
std::vector<bool> above_the_context(std::uint64_t seed, int segments) {
  DriverAddressSpace space(kArea, seed);
  make_context(space);
  auto const context = space.allocate(32 * kMib).value();
  space.begin_set_up();
  std::vector<bool> above;
  std::optional<Address> last_above;
  auto last_below = context;
  for (int i = 0; i < segments; ++i) {
    auto const at = space.allocate(28 * kMib).value();
    above.push_back(at > context);
    if (above.back()) {
      EXPECT_TRUE(!last_above || at < *last_above) << "each row descends";
      last_above = at;
    } else {
      EXPECT_LT(at, last_below);
      last_below = at;
    }
  }
  space.settle();
  auto const after = space.allocate(100 * kMib).value();
  EXPECT_LT(after, last_below) << "whatever follows the set-up goes below it";
  EXPECT_EQ(after - space.allocate(100 * kMib).value(), 128 * kMib);
  return above;
}

// As in logs of an H200 (docs/driver_memory.md): a second row, above the context, from when the model that was moved has left a gap
// that is large enough, which is never before the third reservation.
TEST(DriverAddressSpace, ASetUpLiesInTwoRowsAndTheSeedSaysWhenTheSecondBegins) {
  std::set<std::vector<bool>> drawn;
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    auto const above = above_the_context(seed, 24);
    EXPECT_EQ(above, above_the_context(seed, 24)) << "the same seed draws the same";
    EXPECT_FALSE(above[0] || above[1]);
    auto const second_row = std::count(above.begin(), above.end(), true);
    EXPECT_GE(second_row, 6);
    EXPECT_LE(second_row, 18);
    drawn.insert(above);
  }
  EXPECT_GT(drawn.size(), 4U);
}

TEST(DriverAddressSpace, WithoutASeedASetUpLiesInOneRow) {
  auto const above = above_the_context(0, 24);
  EXPECT_EQ(std::count(above.begin(), above.end(), true), 0);
}

TEST(DriverAddressSpace, ALargeSegmentGoesToTheGapOnlyWhenItFits) {
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    DriverAddressSpace space(kArea, seed);
    make_context(space);
    space.begin_set_up();
    auto const first = space.allocate(160 * kMib).value();
    EXPECT_LT(space.allocate(160 * kMib).value(), first) << "not yet";
    EXPECT_GT(space.allocate(64 * kMib).value(), first);
  }
}

}  // namespace
}  // namespace maxbatch::test
