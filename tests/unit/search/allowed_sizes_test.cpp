#include <maxbatch/search/allowed_sizes.hpp>
#include <maxbatch/search/errors.hpp>

#include <gmock/gmock.h>

#include <random>
#include <vector>

namespace maxbatch {
namespace {

using ::testing::HasSubstr;

std::vector<std::int64_t> all_of(AllowedSizes const& sizes) {
  std::vector<std::int64_t> all;
  for (std::int64_t i = 0; i < sizes.count(); ++i) { all.push_back(sizes.at(i)); }
  return all;
}

std::vector<std::int64_t> by_definition(SearchOptions const& options, std::int64_t up_to) {
  std::vector<std::int64_t> all;
  for (auto size = options.minimum; size <= options.maximum.value_or(up_to); ++size) {
    if (size % options.multiple_of != 0) { continue; }
    if (options.divisor_of && *options.divisor_of % size != 0) { continue; }
    all.push_back(size);
    if (options.enough && size >= *options.enough) { break; }
  }
  return all;
}

TEST(AllowedSizes, AreThoseOfTheDefinition) {
  std::mt19937 random(1);
  auto const up_to = [&random](int most) {
    return 1 + static_cast<std::int64_t>(random() % static_cast<unsigned>(most));
  };
  int compared = 0;
  for (int round = 0; round < 20000; ++round) {
    SearchOptions options;
    options.minimum = up_to(20);
    options.maximum = options.minimum + up_to(300) - 1;
    if (round % 2 == 0) { options.multiple_of = up_to(40); }
    if (round % 3 == 0) { options.divisor_of = up_to(400); }
    if (round % 5 == 0) { options.enough = up_to(300); }
    auto const expected = by_definition(options, 0);
    if (expected.empty()) {
      EXPECT_THROW(AllowedSizes{options}, InvalidArgument);
      continue;
    }
    AllowedSizes const sizes(options);
    ASSERT_EQ(all_of(sizes), expected);
    for (std::int64_t size = 0; size < 340; size += 7) {
      auto const index = sizes.index_at_most(size);
      ASSERT_TRUE(index == -1 ? expected.front() > size : expected[static_cast<std::size_t>(index)] <= size);
      ASSERT_TRUE(index + 1 == sizes.count() || expected[static_cast<std::size_t>(index + 1)] > size);
    }
    ++compared;
  }
  EXPECT_GT(compared, 5000);
}

TEST(AllowedSizes, WithoutAMaximumEndFarAway) {
  AllowedSizes const sizes(SearchOptions{});
  EXPECT_TRUE(sizes.is_unbounded());
  EXPECT_EQ(sizes.at(sizes.count() - 1), AllowedSizes::kLargest);
}

TEST(AllowedSizes, EnoughBeyondTheMaximumChangesNothing) {
  SearchOptions options;
  options.maximum = 10;
  options.enough = 64;
  AllowedSizes const sizes(options);
  EXPECT_EQ(sizes.count(), 10);
  EXPECT_FALSE(sizes.ends_at_enough());
}

struct BadOptions {
  SearchOptions options;
  char const* text;
};

TEST(AllowedSizes, SayWhichValueIsWrong) {
  std::vector<BadOptions> cases(8);
  cases[0].options.minimum = 0, cases[0].text = "minimum is 0";
  cases[1].options.maximum = -3, cases[1].text = "maximum is -3";
  cases[2].options.multiple_of = 0, cases[2].text = "multiple_of is 0";
  cases[3].options.divisor_of = 0, cases[3].text = "effective batch) is 0";
  cases[4].options.enough = -1, cases[4].text = "enough is -1";
  cases[5].options.minimum = 9, cases[5].options.maximum = 8, cases[5].text = "minimum 9 is above maximum 8";
  cases[6].options.multiple_of = 32, cases[6].options.maximum = 31, cases[6].text = "maximum 31, multiple of 32";
  cases[7].options.minimum = 5, cases[7].options.divisor_of = 4, cases[7].text = "divisor of 4";
  for (auto const& bad : cases) {
    try {
      AllowedSizes const sizes(bad.options);
      ADD_FAILURE() << "accepted: " << bad.text;
    } catch (InvalidArgument const& error) { EXPECT_THAT(error.what(), HasSubstr(bad.text)); }
  }
}

}  // namespace
}  // namespace maxbatch
