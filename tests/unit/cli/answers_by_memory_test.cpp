#include "cli/answers_by_memory.hpp"

#include <maxbatch/search/batch_size_search.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <optional>

namespace maxbatch::cli {
namespace {

using namespace literals;

TEST(AnswersByMemory, KnowNothingFromOneAnswer) {
  AnswersByMemory answers;
  EXPECT_EQ(answers.expected(8_GiB), std::nullopt);
  answers.add(8_GiB, 12);
  EXPECT_EQ(answers.expected(8_GiB), std::nullopt);
}

TEST(AnswersByMemory, LieOnTheLineThroughTheNearest) {
  AnswersByMemory answers;
  answers.add(8_GiB, 10);
  answers.add(16_GiB, 30);
  answers.add(24_GiB, 70);
  EXPECT_EQ(answers.expected(8_GiB), 10);
  EXPECT_EQ(answers.expected(12_GiB), 20);
  EXPECT_EQ(answers.expected(16_GiB), 30);
  EXPECT_EQ(answers.expected(20_GiB), 50) << "between its neighbours";
  EXPECT_EQ(answers.expected(32_GiB), 110) << "beyond the last one";
  EXPECT_EQ(answers.expected(6_GiB), 5);
  EXPECT_EQ(answers.expected(2_GiB), 1) << "a batch has a sample";
}

/// However wrong the size is that a search is sent to, the answer is the same; close to it few trials are needed.
TEST(ExpectedSize, OnlyPicksTheFirstTrial) {
  for (std::int64_t largest = 1; largest <= 200; largest += 13) {
    for (std::int64_t const off : {-100, -5, -1, 0, 1, 5, 100}) {
      auto const sent_to = std::max<std::int64_t>(1, largest + off);
      ExpectedSize expected(sent_to);
      auto const result = search_largest_batch_size(
          [largest](std::int64_t size) {
            return size <= largest ? TrialOutcome::fits() : TrialOutcome::out_of_memory();
          },
          {}, &expected);
      EXPECT_EQ(result.batch_size, largest) << "sent to " << sent_to;
      EXPECT_EQ(result.proof, Proof::bracketed);
      if (off == 0) { EXPECT_EQ(result.trials.size(), 3U) << largest; }
      if (off == -1 || off == 1) { EXPECT_LE(result.trials.size(), 7U) << largest << " sent to " << sent_to; }
    }
  }
}

}  // namespace
}  // namespace maxbatch::cli
