#include "session.hpp"
#include <maxbatch/simulation/trace_file.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <cstdint>
#include <string>
#include <vector>

#include <unistd.h>

namespace maxbatch::test {
namespace {

using testing::HasSubstr;

constexpr std::int64_t kMiB = std::int64_t{1} << 20;

/// Recordings of a program by hand.
class Recorder {
 public:
  Recorder() { trace_.events.push_back({0x1000000, 20 * kMiB, 0, 0, 0, 0, TraceAction::segment_alloc}); }

  Recorder& allocate(std::uint64_t address, std::int64_t size, std::string const& what = "") {
    trace_.events.push_back({0x1000000 + address, size, 0, trace_.label_index(what), 0, 0, TraceAction::alloc});
    return *this;
  }
  Recorder& release(std::uint64_t address) {
    for (auto const action : {TraceAction::free_requested, TraceAction::free_completed}) {
      trace_.events.push_back({0x1000000 + address, 0, 0, 0, 0, 0, action});
    }
    return *this;
  }
  Recorder& buy(std::int64_t size) {
    trace_.events.push_back({0x9000000, size, 0, 0, 0, 0, TraceAction::segment_alloc});
    return *this;
  }

  std::string write(std::string const& name) const {
    auto const path = testing::TempDir() + std::to_string(getpid()) + name + ".trace";
    write_allocation_trace(path, trace_, TraceFormat::binary);
    return path;
  }

 private:
  AllocationTrace trace_;
};

nlohmann::json compare(Recorder const& a, Recorder const& b, int expected_code) {
  auto const file_a = a.write("a");
  auto const file_b = b.write("b");
  auto const session = run({"compare-traces", file_a, file_b, "--format", "json"});
  EXPECT_EQ(session.code, expected_code) << session.err;
  unlink(file_a.c_str());
  unlink(file_b.c_str());
  return nlohmann::json::parse(session.out);
}

TEST(CompareTraces, OneRecordingEqualsItself) {
  Recorder a;
  a.allocate(0, 3 * kMiB, "aten::conv").allocate(4 * kMiB, kMiB).release(0);
  auto const json = compare(a, a, 0);
  EXPECT_EQ(json.at("same"), true);
  EXPECT_EQ(json.at("same_allocations"), 2);
  EXPECT_EQ(json.at("alive_at_both_peaks_bytes"), 4 * kMiB);
  EXPECT_TRUE(json.at("differences").empty());
}

TEST(CompareTraces, AnotherSizeInTheSamePlaceIsOneDifference) {
  Recorder a;
  a.allocate(0, 512).allocate(kMiB, 2 * kMiB, "aten::conv").allocate(8 * kMiB, 1024);
  Recorder b;
  b.allocate(0, 512).allocate(kMiB, 5 * kMiB, "aten::conv").allocate(8 * kMiB, 1024);
  auto const json = compare(a, b, 1);
  ASSERT_EQ(json.at("differences").size(), 1U);
  auto const& difference = json.at("differences").at(0);
  EXPECT_EQ(difference.at("what"), "aten::conv");
  EXPECT_EQ(difference.at("size_in_a_bytes"), 2 * kMiB);
  EXPECT_EQ(difference.at("size_in_b_bytes"), 5 * kMiB);
  EXPECT_EQ(difference.at("alive_at_peak_of_a_bytes"), 2 * kMiB);
  EXPECT_EQ(difference.at("alive_at_peak_of_b_bytes"), 5 * kMiB);
  EXPECT_EQ(difference.at("first_in_a"), 1);
  EXPECT_EQ(json.at("a").at("alive_at_peak_only_here_bytes"), 2 * kMiB);
  EXPECT_EQ(json.at("same_allocations"), 2);
}

TEST(CompareTraces, WhatIsNotAliveAtThePeakCountsNothingThere) {
  Recorder a;
  a.allocate(0, kMiB).allocate(kMiB, 4096, "scratch").release(kMiB).allocate(2 * kMiB, 8 * kMiB);
  Recorder b;
  b.allocate(0, kMiB).allocate(2 * kMiB, 8 * kMiB);
  auto const json = compare(a, b, 1);
  ASSERT_EQ(json.at("differences").size(), 1U);
  EXPECT_EQ(json.at("differences").at(0).at("size_in_a_bytes"), 4096);
  EXPECT_EQ(json.at("differences").at(0).at("size_in_b_bytes"), nullptr);
  EXPECT_EQ(json.at("differences").at(0).at("alive_at_peak_of_a_bytes"), 0);
}

TEST(CompareTraces, WhatOneHoldsLongerIsToldApart) {
  Recorder a;
  a.allocate(0, kMiB).allocate(2 * kMiB, 8 * kMiB).release(0);
  Recorder b;
  b.allocate(0, kMiB).release(0).allocate(2 * kMiB, 8 * kMiB);
  auto const json = compare(a, b, 1);
  EXPECT_TRUE(json.at("differences").empty());
  EXPECT_EQ(json.at("a").at("alive_at_peak_longer_here_bytes"), kMiB);
  EXPECT_EQ(json.at("b").at("alive_at_peak_longer_here_bytes"), 0);
  EXPECT_EQ(json.at("a").at("peak_allocated_bytes"), 9 * kMiB);
  EXPECT_EQ(json.at("b").at("peak_allocated_bytes"), 8 * kMiB);
}

TEST(CompareTraces, SegmentsAreComparedInTheirOrder) {
  Recorder a;
  a.allocate(0, kMiB).buy(2 * kMiB);
  Recorder b;
  b.allocate(0, kMiB).buy(20 * kMiB);
  auto const json = compare(a, b, 1);
  EXPECT_EQ(json.at("first_segment_difference"), 1);
  EXPECT_EQ(json.at("b").at("peak_reserved_bytes"), 40 * kMiB);
}

TEST(CompareTraces, TheTextNamesTheOperator) {
  Recorder a;
  a.allocate(0, kMiB, "aten::mm");
  Recorder b;
  b.allocate(0, 2 * kMiB, "aten::mm");
  auto const file_a = a.write("a");
  auto const file_b = b.write("b");
  auto const session = run({"compare-traces", file_a, file_b});
  unlink(file_a.c_str());
  unlink(file_b.c_str());
  EXPECT_EQ(session.code, 1);
  EXPECT_THAT(session.out, HasSubstr("aten::mm"));
  EXPECT_THAT(session.out, HasSubstr("alive at A's peak"));
}

TEST(CompareTraces, AFileThatIsNotThereIsBadUsage) {
  auto const session = run({"compare-traces", "not-there.pickle", "not-there.pickle"});
  EXPECT_EQ(session.code, 2);
  EXPECT_THAT(session.err, HasSubstr("not-there.pickle"));
}

}  // namespace
}  // namespace maxbatch::test
