#include <maxbatch/simulation/driver_address_space.hpp>

#include <gtest/gtest.h>

#include <cstdint>
#include <fstream>
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

TEST(DriverAddressSpace, ASeedScattersTheSetUpAndNothingElse) {
  std::set<Address> first_addresses;
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    DriverAddressSpace space(kArea, seed);
    DriverAddressSpace same(kArea, seed);
    make_context(space);
    make_context(same);
    space.begin_set_up();
    same.begin_set_up();
    auto const first = space.allocate(100 * kMib).value();
    EXPECT_EQ(first, same.allocate(100 * kMib).value());
    first_addresses.insert(first);
    auto const second = space.allocate(100 * kMib).value();
    EXPECT_TRUE(second + 100 * kMib <= first || first + 100 * kMib <= second);
    space.settle();
    auto const third = space.allocate(100 * kMib).value();
    auto const fourth = space.allocate(100 * kMib).value();
    EXPECT_LT(third, std::min(first, second));
    EXPECT_EQ(third - fourth, 128 * kMib);
  }
  EXPECT_EQ(first_addresses.size(), 10U);
}

}  // namespace
}  // namespace maxbatch::test
