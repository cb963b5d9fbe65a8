#include <maxbatch/simulation/allocator_settings.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <random>
#include <string>

namespace maxbatch::test {
namespace {

using testing::HasSubstr;

constexpr std::int64_t kMib = std::int64_t{1} << 20;

std::string complaint_about(std::string const& text) {
  try {
    static_cast<void>(parse_allocator_settings(text));
  } catch (InvalidAllocatorSettings const& e) { return e.what(); }
  return "";
}

std::array<std::int64_t, 16> divisions(std::string const& text) {
  return parse_allocator_settings("roundup_power2_divisions:" + text).roundup_power2_divisions;
}

TEST(AllocatorSettings, AreLibTorchsDefaultsWithoutText) {
  EXPECT_EQ(parse_allocator_settings(""), AllocatorSettings{});
  EXPECT_EQ(parse_allocator_settings("  "), AllocatorSettings{});
  EXPECT_EQ(to_string(AllocatorSettings{}), "");
}

TEST(AllocatorSettings, AreReadWhereverTheKeysStand) {
  auto const settings = parse_allocator_settings(
      " max_split_size_mb : 250, expandable_segments:True,large_segment_size_mb:100,garbage_collection_threshold:0.75,"
      "per_process_memory_fraction:0.5,backend:native,release_lock_on_cudamalloc:True,pinned_num_register_threads:8,");
  EXPECT_EQ(settings.max_split_size, Bytes{250 * kMib});
  EXPECT_EQ(settings.large_segment_size, Bytes{100 * kMib});
  EXPECT_EQ(settings.max_non_split_rounding, Bytes{100 * kMib});
  EXPECT_TRUE(settings.expandable_segments);
  EXPECT_EQ(settings.garbage_collection_threshold, 0.75);
  EXPECT_EQ(settings.per_process_memory_fraction, 0.5);
}

// As LibTorch 2.11 answered through torch.cuda.memory._snapshot()["allocator_settings"].
TEST(AllocatorSettings, DivisionsFillAsInLibTorch) {
  using Divisions = std::array<std::int64_t, 16>;
  Divisions all;
  all.fill(4);
  EXPECT_EQ(divisions("4"), all);
  EXPECT_EQ(divisions("[256:1,512:2,1024:4,>:8]"), (Divisions{1, 1, 1, 1, 1, 1, 1, 1, 1, 2, 4, 8, 8, 8, 8, 8}));
  EXPECT_EQ(divisions("[256:4,1024:8]"), (Divisions{4, 4, 4, 4, 4, 4, 4, 4, 4, 0, 8}));
  EXPECT_EQ(divisions("[512:2,256:4]"), (Divisions{2, 2, 2, 2, 2, 2, 2, 2, 4, 2}));
  EXPECT_EQ(divisions("[>:2]"), (Divisions{0, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2}));
  EXPECT_EQ(divisions("[]"), Divisions{});
  EXPECT_EQ(divisions("[1:4]"), (Divisions{4}));
  EXPECT_EQ(divisions("[131072:2]"), (Divisions{2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2}));
  EXPECT_EQ(divisions("[256:4,>:0]"), (Divisions{4, 4, 4, 4, 4, 4, 4, 4, 4}));
  EXPECT_EQ(divisions("[>:2,256:4]"), (Divisions{4, 4, 4, 4, 4, 4, 4, 4, 4, 2, 2, 2, 2, 2, 2, 2}));
  EXPECT_EQ(divisions("[64:8,>:2,256:4]"), (Divisions{8, 8, 8, 8, 8, 8, 8, 2, 4, 2, 2, 2, 2, 2, 2, 2}));
  EXPECT_EQ(divisions("[256:4,512:8,4096:2,]"), (Divisions{4, 4, 4, 4, 4, 4, 4, 4, 4, 8, 0, 0, 2}));
}

TEST(AllocatorSettings, SomeStayAndSomeBeginAgain) {
  auto const before = parse_allocator_settings(
      "expandable_segments:True,large_segment_size_mb:64,max_split_size_mb:80,garbage_collection_threshold:0.5,"
      "roundup_power2_divisions:8,max_non_split_rounding_mb:70");
  auto const after = parse_allocator_settings("garbage_collection_threshold:0.25", before);
  EXPECT_TRUE(after.expandable_segments);
  EXPECT_EQ(after.large_segment_size, Bytes{64 * kMib});
  EXPECT_EQ(after.max_split_size, std::nullopt);
  EXPECT_EQ(after.max_non_split_rounding, Bytes{64 * kMib});
  EXPECT_EQ(after.garbage_collection_threshold, 0.25);
  EXPECT_EQ(after.roundup_power2_divisions, AllocatorSettings{}.roundup_power2_divisions);
}

TEST(AllocatorSettings, WhatLibTorchRefusesIsRefused) {
  for (auto const* const text :
       {"max_split_size_mb:19", "max_split_size_mb:0", "max_split_size_mb:x", "max_split_size_mb", "max_split_size_mb:",
        "max_split_size_mb:25,,", "max_split_size_mb 25", "max_split_size_mb=25", "large_segment_size_mb:10",
        "large_segment_size_mb:100,max_split_size_mb:50", "max_split_size_mb:250,large_segment_size_mb:300",
        "max_non_split_rounding_mb:19", "garbage_collection_threshold:0", "garbage_collection_threshold:1",
        "garbage_collection_threshold:abc", "roundup_power2_divisions:3", "roundup_power2_divisions:0",
        "roundup_power2_divisions:[300:1]", "roundup_power2_divisions:[256:3]", "roundup_power2_divisions:[256 1]",
        "roundup_power2_divisions:[0:2]", "roundup_power2_divisions:[256:2", "expandable_segments:true",
        "expandable_segments:1", "expandable_segments:[True]", "backend:cudaMallocAsync", "backend:foo", "foo:1",
        "per_process_memory_fraction:1.5", "per_process_memory_fraction:-0.1", "pinned_num_register_threads:3",
        "max_split_size_mb:[25]", "max_split_size_mb:99999999999999999999",
        // Which it takes for something else than what is written there:
        "max_split_size_mb:-1", "max_split_size_mb:25x", "large_segment_size_mb:20.5"}) {
    EXPECT_THAT(complaint_about(text), HasSubstr(text)) << text;
  }
}

TEST(AllocatorSettings, ComplaintsSayWhereAndWhat) {
  EXPECT_EQ(complaint_about("max_split_size_mb:19"),
            "allocator settings 'max_split_size_mb:19', at character 19: max_split_size_mb must be at least "
            "large_segment_size_mb, 20, and not 19");
  EXPECT_THAT(complaint_about("max_split_sise_mb:40"), HasSubstr("did you mean 'max_split_size_mb'?"));
  EXPECT_THAT(complaint_about("expandable_segments:true"), HasSubstr("True or False"));
  EXPECT_THAT(complaint_about("max_split_size_mb:"), HasSubstr("it ends where a value should follow"));
  EXPECT_THAT(complaint_about("backend:cudaMallocAsync"), HasSubstr("another allocator"));
}

TEST(AllocatorSettings, TextAndValuesAreTheSame) {
  std::mt19937_64 random(1);
  for (int i = 0; i < 2000; ++i) {
    AllocatorSettings settings;
    auto const below = [&](std::uint64_t end) { return static_cast<std::int64_t>(random() % end); };
    if (below(2) == 0) { settings.large_segment_size = Bytes{(11 + below(100)) * kMib}; }
    settings.max_non_split_rounding = settings.large_segment_size;
    if (below(2) == 0) { settings.max_split_size = settings.large_segment_size + Bytes{below(50) * kMib}; }
    if (below(2) == 0) { settings.max_non_split_rounding = settings.large_segment_size + Bytes{below(50) * kMib}; }
    if (below(2) == 0) { settings.garbage_collection_threshold = static_cast<double>(1 + below(999)) / 1000; }
    if (below(2) == 0) { settings.per_process_memory_fraction = static_cast<double>(below(1001)) / 1000; }
    settings.expandable_segments = below(2) == 0;
    if (below(3) == 0) { settings.roundup_power2_divisions.fill(std::int64_t{1} << below(8)); }
    if (below(3) == 0) {
      for (auto& division : settings.roundup_power2_divisions) { division = below(2) == 0 ? 0 : 1 << below(6); }
    }
    EXPECT_EQ(parse_allocator_settings(to_string(settings)), settings) << to_string(settings);
  }
}

TEST(AllocatorSettings, NoTextBreaksTheReader) {
  std::mt19937_64 random(2);
  std::array<std::string, 20> const words = {"max_split_size_mb",
                                             "roundup_power2_divisions",
                                             "expandable_segments",
                                             ":",
                                             ",",
                                             "[",
                                             "]",
                                             ">",
                                             "256",
                                             "1",
                                             "0.5",
                                             "True",
                                             " ",
                                             "x",
                                             "backend",
                                             "native",
                                             "garbage_collection_threshold",
                                             "large_segment_size_mb",
                                             "-1",
                                             "64"};
  int accepted = 0;
  for (int i = 0; i < 4000; ++i) {
    std::string text;
    for (auto parts = random() % 9; parts > 0; --parts) { text += words.at(random() % words.size()); }
    if (complaint_about(text).empty()) { ++accepted; }
  }
  EXPECT_GT(accepted, 40);
  EXPECT_LT(accepted, 3800);
}

}  // namespace
}  // namespace maxbatch::test
