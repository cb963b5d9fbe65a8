#include "support/recorded_pair.hpp"
#include <maxbatch/cli/program.hpp>
#include <maxbatch/models/registry.hpp>
#include <maxbatch/simulation/trace_file.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <filesystem>
#include <sstream>
#include <string>
#include <vector>

namespace maxbatch {
namespace {

using ::testing::HasSubstr;

struct Outcome {
  int code = 0;
  std::string out;
  std::string err;
};

Outcome run(std::vector<std::string> words) {
  words.insert(words.begin(), {"maxbatch", "predict"});
  std::vector<char const*> arguments;
  for (auto const& word : words) { arguments.push_back(word.c_str()); }
  std::ostringstream out;
  std::ostringstream err;
  Outcome outcome;
  outcome.code =
      run_program(static_cast<int>(arguments.size()), arguments.data(), models::ModelRegistry::built_in(), out, err);
  outcome.out = out.str();
  outcome.err = err.str();
  return outcome;
}

std::string recording(std::string const& model, int batch_size) {
  return test::recorded_path(model, batch_size) + "=" + std::to_string(batch_size);
}

class PredictCommand : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!test::has_zlib()) { GTEST_SKIP() << "maxbatch was built without zlib"; }
  }
};

TEST_F(PredictCommand, AnswersInJson) {
  auto const outcome =
      run({recording("vit_b_16", 2), recording("vit_b_16", 3), "--budget", "3500MiB", "--format", "json"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  auto const json = nlohmann::json::parse(outcome.out);
  EXPECT_EQ(json.at("largest_batch_size"), 17);
  EXPECT_EQ(json.at("elastic_largest_batch_size"), 17);
  EXPECT_EQ(json.at("is_elastic"), false);
  EXPECT_EQ(json.at("budget_bytes"), std::int64_t{3500} << 20);
  EXPECT_EQ(json.at("recorded_on"), "h200");
  EXPECT_GT(json.at("extrapolated").at("reductions_begun"), 0);
  EXPECT_EQ(json.at("recordings").size(), 2U);
  EXPECT_GE(json.at("candidates").size(), 2U);
}

TEST_F(PredictCommand, AnswersInWords) {
  auto const outcome = run({recording("gpt2", 3), recording("gpt2", 2), "--budget", "12000MiB"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("12 is predicted to be the largest batch that fits in 12,000 MiB"));
  EXPECT_THAT(outcome.out, HasSubstr("nothing was run"));
}

TEST_F(PredictCommand, PutsTheRecordingInAnotherCardsTerms) {
  auto const outcome = run({recording("vit_b_16", 2), recording("vit_b_16", 3), "--card", "rtx-2080-ti"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("recorded on h200: for rtx-2080-ti"));
}

TEST_F(PredictCommand, WritesWhatItScaled) {
  auto const path = (std::filesystem::temp_directory_path() / "maxbatch_predicted.trace.gz").string();
  auto const outcome = run({recording("resnet50_sgd", 2), recording("resnet50_sgd", 3), "--budget", "2GiB", "--write",
                            path, "--write-batch", "64"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  auto const trace = read_allocation_trace(path);
  EXPECT_EQ(trace.world, TraceWorld::simulated);
  EXPECT_GT(*trace.last_statistic("allocated_peak"), std::int64_t{5} << 30);
  std::filesystem::remove(path);
}

TEST_F(PredictCommand, NothingFits) {
  auto const outcome = run({recording("gpt2", 2), recording("gpt2", 3), "--budget", "1GiB"});
  EXPECT_EQ(outcome.code, 3);
  EXPECT_THAT(outcome.out, HasSubstr("one sample's requests alone sum to"));
}

TEST_F(PredictCommand, SaysWhatIsWrong) {
  auto const two = recording("gpt2", 2);
  auto const complaint = [](std::vector<std::string> const& words) {
    auto const outcome = run(words);
    EXPECT_EQ(outcome.code, 2);
    EXPECT_EQ(outcome.out, "");
    return outcome.err;
  };
  EXPECT_THAT(complaint({two, recording("gpt2", 3)}), HasSubstr("give --budget BYTES or --card NAME"));
  EXPECT_THAT(complaint({two, "--budget", "1GiB"}), HasSubstr("at least two batch sizes"));
  EXPECT_THAT(complaint({two, two, "--budget", "1GiB"}), HasSubstr("batch size 2 was given twice"));
  EXPECT_THAT(complaint({two, "x.csv", "--budget", "1GiB"}), HasSubstr("write FILE=BATCH"));
  EXPECT_THAT(complaint({two, "x.csv=0", "--budget", "1GiB"}), HasSubstr("'0' is not a whole number of at least 1"));
  EXPECT_THAT(complaint({two, "no_such_file=3", "--budget", "1GiB"}), HasSubstr("no_such_file: cannot be read"));
  EXPECT_THAT(complaint({two, recording("resnet50_sgd", 3), "--budget", "1GiB"}),
              HasSubstr("not of one program: they part at request 0"));
  EXPECT_THAT(complaint({two, recording("gpt2", 3), "--card", "h20000"}), HasSubstr("--card: "));
}

}  // namespace
}  // namespace maxbatch
