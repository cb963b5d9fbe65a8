#include "dry_cuda/libraries/convolution_question.hpp"
#include "dry_cuda/libraries/convolution_table.hpp"
#include "dry_cuda/libraries/convolution_table_text.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <random>
#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include <unistd.h>

namespace maxbatch::dry {
namespace {

ConvolutionQuestion some_question() {
  ConvolutionQuestion question;
  question.input = {16, 128, 32, 32};
  question.filter = {128, 128, 3, 3};
  question.stride = question.padding = question.dilation = {1, 1};
  question.type = "half";
  question.math = "any";
  return question;
}

TEST(ConvolutionQuestion, IsTheLineOfATable) {
  EXPECT_EQ(some_question().text(), "forward 16,128,32,32 128,128,3,3 1,1 1,1 1,1 contiguous half any");
}

TEST(ConvolutionQuestion, IsReadAsItIsWritten) {
  int questions = 0;
  for (auto const table : built_in_convolution_tables()) {
    read_convolution_table(table, [&](ConvolutionAtBatch const& asked, auto const&) {
      if (++questions % 7 != 0) { return; }
      auto const text = question_text(asked);
      ASSERT_EQ(ConvolutionQuestion::parse(text).text(), text);
    });
  }
  EXPECT_GT(questions, 6000);
  EXPECT_THROW(ConvolutionQuestion::parse("forward 1,2,3"), std::invalid_argument);
}

TEST(ConvolutionQuestion, IsCompleteOnlyWithPartsThatFit) {
  EXPECT_TRUE(some_question().is_complete());
  auto question = some_question();
  question.stride = {1};
  EXPECT_FALSE(question.is_complete());
  question = some_question();
  question.filter.clear();
  EXPECT_FALSE(question.is_complete());
  question = some_question();
  question.type.clear();
  EXPECT_FALSE(question.is_complete());
}

TEST(ConvolutionTable, AnswersTheFirstPlanAndThoseBehindIt) {
  ConvolutionTable table;
  table.add("# card: a card\n\n" + some_question().text() + " 100 20 3\n");
  EXPECT_EQ(table.find(some_question().text()), 100);
  EXPECT_EQ(table.find(some_question().text(), 2), 3);
  EXPECT_EQ(table.find(some_question().text(), 3), std::nullopt);
  auto other = some_question();
  other.channels_last = true;
  EXPECT_EQ(table.find(other.text()), std::nullopt);
}

TEST(ConvolutionTable, AnswersOtherBatchSizesFromThoseNextToThem) {
  auto const at = [](std::int64_t batch, std::string const& math) {
    auto question = some_question();
    question.input[0] = batch;
    question.math = math;
    return question.text();
  };
  ConvolutionTable table;
  EXPECT_EQ(table.find_near(at(16, "any")), std::nullopt);
  table.add(at(16, "any") + " 16000 7\n");
  EXPECT_EQ(table.find_near(at(20, "any")), std::nullopt);
  table.add(at(32, "any") + " 32000\n");
  EXPECT_EQ(table.find_near(at(20, "any")), 20000);
  table.add(at(64, "any") + " 64000\n" + at(128, "any") + " 64000\n");
  EXPECT_EQ(table.find_near(at(20, "any")), 20000) << "a third on the line";
  EXPECT_EQ(table.find_near(at(48, "any")), 48000);
  EXPECT_EQ(table.find_near(at(96, "any")), 64000) << "both say the same";
  EXPECT_EQ(table.find_near(at(256, "any")), 64000);
  EXPECT_EQ(table.find_near(at(8, "any")), std::nullopt) << "below what is known";
  EXPECT_EQ(table.find_near(at(257, "any")), std::nullopt) << "far above";
  EXPECT_EQ(table.find_near(at(20, "tf32")), std::nullopt);
  table.add(at(1, "tf32") + " 10000\n" + at(4, "tf32") + " 20000\n" + at(8, "tf32") + " 0\n");
  EXPECT_EQ(table.find_near(at(2, "tf32")), std::nullopt) << "no third on the line";
  EXPECT_EQ(table.find_near(at(6, "tf32")), std::nullopt) << "nothing and something are different plans";
  table.add(at(16, "fp32") + " 0\n" + at(32, "fp32") + " 400\n" + at(64, "fp32") + " 64000\n");
  EXPECT_EQ(table.find_near(at(17, "fp32")), 400) << "small ones do not grow";
  EXPECT_EQ(table.find_near(at(48, "fp32")), 32200) << "no third on the line, and none needed";
}

TEST(ConvolutionTable, LinesOfFiltersGradientsAreRoundedDownAndNeverSmall) {
  auto filter = some_question();
  filter.direction = ConvolutionQuestion::Direction::backward_filter;
  auto const at = [&](std::int64_t batch) {
    filter.input[0] = batch;
    return filter.text();
  };
  ConvolutionTable table;
  table.add(at(1) + " 40000\n" + at(4) + " 50000\n" + at(7) + " 60000\n");
  EXPECT_EQ(table.find_near(at(2)), 43333);
  table.add(at(16) + " 1000\n" + at(32) + " 2000\n" + at(64) + " 1000\n");
  EXPECT_EQ(table.find_near(at(24)), std::nullopt);
}

TEST(ConvolutionTable, BelievesTheLaterLine) {
  ConvolutionTable table;
  table.add(some_question().text() + " 1\n");
  table.add(some_question().text() + " 2");
  EXPECT_EQ(table.find(some_question().text()), 2);
}

TEST(ConvolutionTable, HasALineForAllBatchSizesOfAConvolution) {
  auto const convolution = [](std::string const& batch) {
    return "forward " + batch + ",128,32,32 128,128,3,3 1,1 1,1 1,1 contiguous half any";
  };
  auto const line = convolution("*") + " 2:7,0 16:100,20,3 128:5\n";
  ConvolutionTable table;
  table.add(line);
  EXPECT_EQ(table.find(convolution("16"), 1), 20);
  EXPECT_EQ(table.find(convolution("128")), 5);
  EXPECT_EQ(table.find(convolution("3")), std::nullopt);
  EXPECT_EQ(convolution_table_lines(
                {{convolution("16"), {100, 20, 3}}, {convolution("128"), {5}}, {convolution("2"), {7, 0}}}),
            line);
}

ConvolutionAnswers answers_of(std::string_view table) {
  ConvolutionAnswers answers;
  read_convolution_table(table, [&](ConvolutionAtBatch const& asked, std::vector<std::int64_t> workspaces) {
    answers[question_text(asked)] = std::move(workspaces);
  });
  return answers;
}

std::string const kConvolution = "forward *,2 b c d e f g h";

TEST(ConvolutionTable, KeepsBatchSizesThatFollowEachOtherInARun) {
  auto const answers = answers_of(kConvolution + " 1:7 3-5:0,272 6:0 7-9:100,5;140,5 16-18:9\n");
  EXPECT_THAT(answers, testing::SizeIs(1 + 3 + 1 + 3 + 3));
  auto const at = [&](int batch) { return answers.at(question_text({batch, kConvolution})); };
  EXPECT_THAT(at(4), testing::ElementsAre(0, 272));
  EXPECT_THAT(at(7), testing::ElementsAre(100, 5));
  EXPECT_THAT(at(8), testing::ElementsAre(120, 5));
  EXPECT_THAT(at(9), testing::ElementsAre(140, 5));
  EXPECT_EQ(answers.count(question_text({10, kConvolution})), 0U);
  EXPECT_EQ(convolution_table_lines(answers), kConvolution + " 1:7 3-5:0,272 6:0 7-9:100,5;140,5 16-18:9\n");
}

TEST(ConvolutionTable, WritesWhatItReadsWhateverTheAnswers) {
  std::mt19937 random(5);
  auto const below = [&](int bound) { return static_cast<std::int64_t>(random() % static_cast<unsigned>(bound)); };
  for (int round = 0; round < 300; ++round) {
    ConvolutionAnswers answers;
    for (std::int64_t batch = below(4); batch < 40; batch += 1 + below(8) / 6) {
      auto& workspaces = answers[question_text({batch, kConvolution})];
      for (auto rank = 1 + below(12) / 10; rank > 0; --rank) {
        workspaces.push_back(below(5) > 0 ? 1000 + batch * 8 * (batch / 10) : below(3));
      }
    }
    ASSERT_EQ(answers_of(convolution_table_lines(answers)), answers) << convolution_table_lines(answers);
  }
}

// Bisection finds what reading finds, in tables whose lines stand in order; and those that come along do.
TEST(ConvolutionTable, ComesAlongInTheOrderOfItsLines) {
  for (auto const text : built_in_convolution_tables()) {
    ConvolutionTable table;
    table.add_sorted(text);
    std::string_view before;
    std::size_t number = 0;
    for (auto rest = text.substr(text.find("\nbackward") + 1); !rest.empty();) {
      auto const line = rest.substr(0, rest.find('\n') + 1);
      rest.remove_prefix(line.size());
      ASSERT_LT(before, line);
      before = line;
      auto const answers = answers_of(line);
      ASSERT_EQ(convolution_table_lines(answers), line) << "more_batch_sizes.py writes them so";
      for (auto const& [question, workspaces] : answers) {
        if (++number % 29 != 0) { continue; }
        for (std::size_t rank = 0; rank < workspaces.size(); ++rank) {
          ASSERT_EQ(table.find(question, rank), workspaces[rank]) << question;
        }
        ASSERT_EQ(table.find(question, workspaces.size()), std::nullopt);
      }
    }
    EXPECT_GT(number, 1'000'000U);
    EXPECT_EQ(table.find("a *,1 b c d e f g h"), std::nullopt);
    EXPECT_EQ(table.find("z 1,1 b c d e f g h"), std::nullopt);
  }
}

TEST(ConvolutionTable, FindsLinesByBisection) {
  std::string const text =
      "# card: a card\nbackward *,2 b c d e f g h 1:5 2:6\nforward *,1 b c d e f g h 3:7\n"
      "forward *,10 b c d e f g h 3:8 9:1";
  for (std::size_t length : {text.size(), text.size() - 4}) {
    ConvolutionTable table;
    table.add("forward 3,1 b c d e f g h 70\n");
    table.add_sorted(std::string_view(text).substr(0, length));
    EXPECT_EQ(table.find("backward 2,2 b c d e f g h"), 6);
    EXPECT_EQ(table.find("forward 3,1 b c d e f g h"), 70) << "what was added goes before";
    EXPECT_EQ(table.find("forward 3,10 b c d e f g h"), 8);
    EXPECT_EQ(table.find("forward 3,11 b c d e f g h"), std::nullopt);
    EXPECT_EQ(table.find("forward 4,10 b c d e f g h"), std::nullopt);
  }
  ConvolutionTable empty;
  empty.add_sorted("");
  EXPECT_EQ(empty.find("forward 3,1 b c d e f g h"), std::nullopt);
}

TEST(ConvolutionTable, RefusesALineThatIsNone) {
  for (std::string const line :
       {"forward 1,2 3", "forward a b c d e f g h", "hello", "forward *,2 3 1 1 1 contiguous half any 8",
        "forward *,2 3 1 1 1 contiguous half any 8:", "forward *,2 3 1 1 1 contiguous half any 8:1,x",
        "forward *,2 3 1 1 1 contiguous half any 8-7:1", "forward *,2 3 1 1 1 contiguous half any 8-:1",
        "forward *,2 3 1 1 1 contiguous half any -8:1", "forward *,2 3 1 1 1 contiguous half any 8-9:1;2,3",
        "forward *,2 3 1 1 1 contiguous half any 8-9:;1", "forward *,2 3 1 1 1 contiguous half any 1-999999999:1"}) {
    ConvolutionTable table;
    EXPECT_THAT([&] { table.add("# one\n" + line + "\n"); },
                testing::ThrowsMessage<std::runtime_error>(testing::HasSubstr("line 2")))
        << line;
  }
  ConvolutionTable table;
  EXPECT_THROW(table.add(some_question().text() + " -5\n"), std::runtime_error);
}

TEST(ConvolutionTable, KnowsItsHeader) {
  std::string const text = "# a table\n# card: NVIDIA H200\n# cudnn: 91900\n";
  EXPECT_EQ(convolution_table_header(text, "card"), "NVIDIA H200");
  EXPECT_EQ(convolution_table_header(text, "cudnn"), "91900");
  EXPECT_EQ(convolution_table_header(text, "driver"), "");
}

TEST(ConvolutionTable, ComesWithTheH200s) {
  auto const tables = built_in_convolution_tables();
  ASSERT_FALSE(tables.empty());
  EXPECT_EQ(convolution_table_header(tables[0], "card"), "NVIDIA H200");
  ConvolutionTable table;
  for (auto const text : tables) table.add_sorted(text);
  EXPECT_EQ(table.find("forward 16,128,32,32 128,128,3,3 1,1 1,1 1,1 contiguous bfloat16 any"), 8683536);
}

TEST(ConvolutionQuestionLog, WritesEachQuestionOnceWhateverTheThread) {
  std::string path = testing::TempDir() + "maxbatch_questions_XXXXXX";
  int const file = mkstemp(path.data());
  ASSERT_GE(file, 0);
  close(file);
  {
    ConvolutionQuestionLog log(path);
    std::vector<std::thread> threads;
    std::atomic<int> first_times{0};
    for (int i = 0; i < 4; ++i) {
      threads.emplace_back([&] {
        for (int question = 0; question < 50; ++question) {
          if (log.write("question " + std::to_string(question))) ++first_times;
        }
      });
    }
    for (auto& thread : threads) thread.join();
    EXPECT_EQ(first_times, 50);
  }
  std::ifstream read(path);
  int lines = 0;
  for (std::string line; std::getline(read, line); ++lines) EXPECT_THAT(line, testing::StartsWith("question "));
  EXPECT_EQ(lines, 50);
  std::remove(path.c_str());
}

TEST(ConvolutionQuestionLog, CountsWithoutAPath) {
  ConvolutionQuestionLog log("");
  EXPECT_TRUE(log.write("question"));
  EXPECT_FALSE(log.write("question"));
}

}  // namespace
}  // namespace maxbatch::dry
