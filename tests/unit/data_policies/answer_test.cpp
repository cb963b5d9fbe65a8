#include "data_policies/answer.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <random>
#include <stdexcept>
#include <string>

namespace maxbatch::dry {
namespace {

Answer any_answer(std::mt19937_64& random, bool may_be_several = true) {
  auto const share = std::uniform_real_distribution<>(0, 1)(random);
  auto const number = std::ldexp(share, std::uniform_int_distribution<>(0, 40)(random));
  switch (std::uniform_int_distribution<>(0, may_be_several ? 6 : 5)(random)) {
    case 0: return {Answer::Kind::worst, 0, {}};
    case 1: return {Answer::Kind::none, 0, {}};
    case 2: return {Answer::Kind::share, 100 * share, {}};
    case 3: return {Answer::Kind::number, number, {}};
    case 4: return {Answer::Kind::truth, share < 0.5 ? 0.0 : 1.0, {}};
    case 5: return {Answer::Kind::number, std::floor(number), {}};
    default: {
      Answer several;
      auto const count = std::uniform_int_distribution<>(1, 5)(random);
      for (int i = 0; i < count; ++i) { several.in_turn.push_back(any_answer(random, false)); }
      return several;
    }
  }
}

TEST(DataAnswer, IsReadAgainFromItsOwnText) {
  std::mt19937_64 random(1);
  for (int i = 0; i < 5000; ++i) {
    auto const answer = any_answer(random);
    EXPECT_EQ(read_answer("  " + answer_text(answer) + "\t"), answer) << answer_text(answer);
  }
}

TEST(DataAnswer, ACountIsNeverOutOfRangeAndGrowsWithItsShare) {
  std::mt19937_64 random(2);
  std::uniform_int_distribution<std::int64_t> any_size(0, std::int64_t{1} << 40);
  for (int i = 0; i < 5000; ++i) {
    auto const all = any_size(random);
    auto const answer = any_answer(random, false);
    auto const count = count_of(answer, all, all);
    EXPECT_GE(count, 0);
    EXPECT_LE(count, all);
    EXPECT_LE(count, count_of(Answer{}, all, all)) << "nothing is worse than the worst";
    if (answer.kind == Answer::Kind::share) {
      EXPECT_NEAR(static_cast<double>(count), static_cast<double>(all) * answer.amount / 100, 0.5 + 1e-3);
      EXPECT_LE(count, count_of({Answer::Kind::share, std::min(100.0, answer.amount * 1.5), {}}, all, all));
    }
    if (answer.kind == Answer::Kind::number) {
      EXPECT_EQ(count, std::min(all, static_cast<std::int64_t>(answer.amount)));
    }
  }
  EXPECT_EQ(count_of({Answer::Kind::share, 100, {}}, 12345, 12345), 12345);
  EXPECT_EQ(count_of({Answer::Kind::none, 0, {}}, 12345, 12345), 0);
  EXPECT_EQ(count_of(read_answer("-3"), 10, 10), 0) << "a value, but no count";
  EXPECT_EQ(count_of(read_answer("1e300"), 10, std::numeric_limits<std::int64_t>::max()),
            std::numeric_limits<std::int64_t>::max());
}

TEST(DataAnswer, WhatIsUnboundedMayBeMoreThanUsual) {
  EXPECT_EQ(count_of(read_answer("500"), 10, 1000), 500);
  EXPECT_EQ(count_of(read_answer("5000"), 10, 1000), 1000);
  EXPECT_EQ(count_of(read_answer("worst"), 10, 1000), 10);
}

TEST(DataAnswer, SeveralTakeTurns) {
  auto const answer = read_answer("worst, none, 3 in turn");
  for (std::int64_t call = 0; call < 9; ++call) {
    constexpr std::array<std::int64_t, 3> kExpected = {10, 0, 3};
    EXPECT_EQ(count_of(answer_at(answer, call), 10, 10), kExpected.at(static_cast<std::size_t>(call % 3)));
  }
}

TEST(DataAnswer, RefusesWithTheTextThatWasWrong) {
  for (std::string const text : {"", "all of it", "101%", "-1%", "%", "12x", "at most", "at most many", "at most -1",
                                 "nan", "inf", "1,2", "1, in turn", " in turn", "1 in turn in turn"}) {
    try {
      read_answer(text);
      ADD_FAILURE() << "took '" << text << "'";
    } catch (std::invalid_argument const& error) { EXPECT_THAT(error.what(), testing::HasSubstr("'")) << text; }
  }
  EXPECT_THAT([] { read_answer("hundred"); },
              testing::ThrowsMessage<std::invalid_argument>(testing::HasSubstr("'hundred' is no answer")));
}

}  // namespace
}  // namespace maxbatch::dry
