#include "support/made_up_result.hpp"
#include <maxbatch/report/result_table.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>
#include <string>

namespace maxbatch::test {
namespace {

using testing::HasSubstr;
using testing::Not;

void expect_plain_text(std::string const& text) {
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    EXPECT_LE(line.size(), 100U) << line;
    EXPECT_TRUE(line.empty() || line.back() != ' ') << "'" << line << "'";
    for (char const c : line) { EXPECT_TRUE(c >= ' ' && c <= '~') << line; }
  }
}

TEST(ResultTable, ShowsTheAnswerAndTheTrials) {
  auto const text = to_text(made_up_result(), made_up_subject());
  expect_plain_text(text);
  EXPECT_THAT(
      text,
      HasSubstr("net: adamw-fused, fp32, 32x48 images; on cpu under a budget, 64 MiB, of which 4 MiB is kept free\n"));
  EXPECT_THAT(text, HasSubstr("proof ............... bracketed\n"));
  EXPECT_THAT(text, HasSubstr("warning ............. a warning\n"));
  EXPECT_THAT(text, HasSubstr("trial  batch  purpose    outcome        peak MiB  forward  backward  seconds\n"
                              "    1      1  scout      fits               10.0      9.0      10.0     0.25\n"
                              "    2     12  scout      fits               60.0     59.0      60.0     0.25\n"
                              "    3     13  predicted  out of memory      63.0     63.0         -     0.50\n"
                              "    4     13  repeat     out of memory      63.0     63.0         -     0.50\n"));
}

TEST(ResultTable, SaysThatNothingFits) {
  auto const text = to_text(made_up_result_where_nothing_fits(), made_up_subject());
  expect_plain_text(text);
  EXPECT_THAT(text, HasSubstr("largest batch ....... -\n"));
  EXPECT_THAT(text, HasSubstr("proof ............... nothing fits\n"));
}

TEST(ResultTable, SaysHowToMakeAnEffectiveBatch) {
  auto subject = made_up_subject();
  subject.effective_batch = 96;
  EXPECT_THAT(to_text(made_up_result(), subject),
              HasSubstr("Effective batch 96: 8 micro-batches of 12 per optimizer step.\n"));
  subject.effective_batch = 12;
  EXPECT_THAT(to_text(made_up_result(), subject), HasSubstr("Effective batch 12: 1 micro-batch of 12 per"));
}

TEST(ResultTable, ShowsOtherOnlyWhereItIsThePeak) {
  auto result = made_up_result();
  result.search.trials[1].outcome.phases.push_back({Phase::other, MemoryPeaks::all(Bytes{50 * kMiB})});
  EXPECT_THAT(to_text(result, made_up_subject()), Not(HasSubstr("other")));
  result.search.trials[1].outcome.phases.back().peaks = MemoryPeaks::all(Bytes{60 * kMiB});
  EXPECT_THAT(to_text(result, made_up_subject()), HasSubstr("backward  other  seconds"));
}

TEST(ResultTable, PutsOneLinePerEntry) {
  auto without_warning = made_up_result();
  without_warning.warnings.clear();
  ReportEntry failed;
  failed.subject = made_up_subject();
  failed.result.device.budget = Bytes{16 * kMiB};
  failed.error = "shapes do not match";
  auto const text = to_table({{made_up_subject(), without_warning, std::nullopt},
                              {made_up_subject(), made_up_result_where_nothing_fits(), std::nullopt},
                              failed},
                             "A heading.");
  expect_plain_text(text);
  EXPECT_EQ(text,
            "A heading.\n"
            "\n"
            "model  budget   batch  peak MiB  next  its failure      proof         trials  seconds\n"
            "net    64 MiB      12      60.0    13  backward, 2 MiB  bracketed          4      1.2\n"
            "net    64 MiB       -         -     1  backward, 2 MiB  nothing fits       2      1.2\n"
            "net    16 MiB  failed\n"
            "\n"
            "net under 64 MiB: a warning\n"
            "net under 16 MiB failed: shapes do not match\n");
}

TEST(ResultTable, PutsThePeakWithEasyInputsBesideTheRecipes) {
  auto result = made_up_result();
  EXPECT_THAT(to_text(result, made_up_subject()), testing::Not(HasSubstr("easy")));
  result.easy_inputs = EasyInputs{"easy_net", fitting_trial(12, Bytes{30 * kMiB}).outcome};
  auto const text = to_text(result, made_up_subject());
  expect_plain_text(text);
  EXPECT_THAT(
      text, HasSubstr("this recipe's peak .. reserved 60.0 MiB, allocated 60.0 MiB\n"
                      "with easy inputs .... reserved 30.0 MiB, allocated 30.0 MiB (easy_net, one run; no part of the\n"
                      "                      proof)\n"));
  result.easy_inputs->outcome = failing_trial(12, TrialPurpose::scout).outcome;
  EXPECT_THAT(to_text(result, made_up_subject()), HasSubstr("with easy inputs .... out of memory (easy_net"));
}

TEST(ResultTable, HasColumnsOfSpeedWhereItWasMeasured) {
  SpeedResult speed;
  for (auto const& [size, training, inference] :
       {std::tuple(4, 0.2, 0.04), std::tuple(8, 0.2, 0.04), std::tuple(12, 0.3, 0.1)}) {
    auto& at = speed.sizes.emplace_back();
    at.batch_size = at.samples_per_training_step = size;
    at.training_times = StepTimes{{training}, 1};
    at.inference_times = StepTimes{{inference}, 1};
  }
  auto result = made_up_result();
  result.warnings.clear();
  auto const text = to_table(
      {{made_up_subject(), result, std::nullopt, speed}, {made_up_subject(), result, std::nullopt}}, "A heading.");
  expect_plain_text(text);
  EXPECT_THAT(text, HasSubstr("trials  seconds\n"));
  EXPECT_THAT(
      text, HasSubstr("\nSamples a second at that batch; its knee is the smallest batch within 5 % of the best speed.\n"
                      "\n"
                      "model  budget  batch  training/s   its knee  inference/s  its knee\n"
                      "net    64 MiB     12        40.0  40.0 at 8          120  200 at 8\n"));
}

}  // namespace
}  // namespace maxbatch::test
