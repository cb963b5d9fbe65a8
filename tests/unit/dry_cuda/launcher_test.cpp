// What `maxbatch dry-run` says about programs that cannot be dry, what it writes down, and what it reads back.
#include "program_runs.hpp"
#include "table_answers.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <fstream>
#include <map>
#include <sstream>
#include <string>

namespace maxbatch::test {
namespace {

using testing::HasSubstr;

nlohmann::json report_of(std::string const& options, std::string const& program, Said& said) {
  Folder const folder;
  said = run_maxbatch("dry-run " + options + " --report " + folder.file("report") + " -- " + program);
  return nlohmann::json::parse(read_file(folder.file("report")), nullptr, /*allow_exceptions=*/false);
}

void expect_one_sentence(std::string const& text, std::string const& part) {
  EXPECT_THAT(text, HasSubstr(part));
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 1) << text;
}

TEST(DryLauncher, APairOfWordsForEachProgramThatCannotStart) {
  Folder const folder;
  std::ofstream(folder.file("train.py")) << "print()\n";
  auto const said = run_maxbatch("dry-run --card h200 -- " + folder.file("train.py"));
  EXPECT_EQ(said.exit_code, 2);
  expect_one_sentence(said.text, "is not executable; make it so (chmod +x), or start it as: -- python ");
}

TEST(DryLauncher, ACardThatIsNotKnownAndABudgetOfNothing) {
  auto said = run_maxbatch("dry-run --card rtx-3091 -- true");
  EXPECT_EQ(said.exit_code, 2);
  expect_one_sentence(said.text, "no card is called 'rtx-3091'; did you mean 'rtx-3090'?");
  said = run_maxbatch("dry-run --card h200 --budget 0 -- true");
  EXPECT_EQ(said.exit_code, 2);
  expect_one_sentence(said.text, "--budget '0' is too little; give at least 2 MiB");
  said = run_maxbatch("dry-run -- true");
  EXPECT_EQ(said.exit_code, 2);
  expect_one_sentence(said.text, "dry-run needs --card NAME");
}

TEST(DryLauncher, AProgramThatIsNoneOfCudas) {
  Said said;
  auto const report = report_of("--card h200", "true", said);
  EXPECT_EQ(said.exit_code, 0);
  EXPECT_EQ(report.at("remarks").at(0), "true asked CUDA's runtime for nothing: it uses no GPU");
  expect_one_sentence(run_maxbatch("dry-run --card h200 -- true").text, "it uses no GPU");
}

TEST(DryLauncher, ARuntimeThatIsLinkedStatically) {
#if defined(MAXBATCH_DRY_STATIC_RUNTIME)
  auto const said = run_maxbatch("dry-run --card h200 -- " MAXBATCH_DRY_STATIC_RUNTIME);
  EXPECT_THAT(said.text, HasSubstr("status 35, devices 0")) << "nothing stood in for it";
  EXPECT_THAT(said.text,
              HasSubstr(MAXBATCH_DRY_STATIC_RUNTIME " asked for the driver itself, so CUDA's runtime is linked "
                                                    "into it statically"));
  auto const dynamic = run_maxbatch("dry-run --card h200 -- " MAXBATCH_DRY_ASKS_FOR_DEVICES);
  EXPECT_THAT(dynamic.text, HasSubstr("status 0, devices 1"));
  EXPECT_THAT(dynamic.text, testing::Not(HasSubstr("statically")));
#else
  GTEST_SKIP() << "there is no libcudart_static.a here";
#endif
}

TEST(DryLauncher, AnotherCudaAndAnotherLibTorch) {
  EXPECT_THAT(run_maxbatch("dry-run --card h200 -- " MAXBATCH_DRY_USES_OTHER_RUNTIME).text,
              HasSubstr("the program loads libcudart.so.12, and this dry card stands in for CUDA 13 alone"));
  Said said;
  auto const report = report_of("--card h200", MAXBATCH_DRY_USES_OTHER_LIBTORCH, said);
  EXPECT_EQ(report.at("remarks").at(0),
            "the program's LibTorch is 2.9; answers were compared with a card for LibTorch 2.11 alone");
}

TEST(DryLauncher, CudnnThatIsNotThere) {
  Folder const folder;
  std::ofstream(folder.file("libcudnn.so.9")).close();  // wherever a real one may lie, this is found first
  auto const said = run_maxbatch("dry-run --card h200 -- env LD_LIBRARY_PATH=" + folder.path() +
                                 " " MAXBATCH_DRY_PLANS_A_CONVOLUTION);
  EXPECT_EQ(said.exit_code, 2);
  EXPECT_THAT(said.text, HasSubstr("maxbatch dry-run: a dry card lets the real libcudnn.so.9 plan "
                                   "(cudnnBackendCreateDescriptor), and it cannot be loaded; put its folder into "
                                   "LD_LIBRARY_PATH"));
}

#if defined(MAXBATCH_DRY_CONVOLUTION_TRAINING)

TEST(DryLauncher, ThePeaksAreThoseThatLibTorchCounted) {
  Said said;
  auto const report = report_of("--card h200", MAXBATCH_DRY_CONVOLUTION_TRAINING, said);
  ASSERT_EQ(said.exit_code, 0) << said.text;
  std::istringstream numbers(said.text);
  std::int64_t allocated = 0;
  std::int64_t reserved = 0;
  std::int64_t retries = 0;
  std::int64_t failures = 0;
  ASSERT_TRUE(numbers >> allocated >> reserved >> retries >> failures) << said.text;
  auto const device = report.at("processes").at(0).at("devices").at(0);
  auto const allocator = device.at("allocator");
  EXPECT_EQ(allocator.at("peak_allocated_bytes"), allocated);
  EXPECT_EQ(allocator.at("peak_reserved_bytes"), reserved);
  EXPECT_EQ(device.at("peak_segment_bytes"), reserved);
  EXPECT_EQ(allocator.at("retries"), 0);
  EXPECT_EQ(allocator.at("out_of_memory"), 0);
  EXPECT_EQ(allocator.at("failed_request"), nullptr);
}

TEST(DryLauncher, WhereNoTableKnowsTheConvolutionsThePeakIsAnInterval) {
  Said said;
  auto const report = report_of("--card rtx-4090", MAXBATCH_DRY_CONVOLUTION_TRAINING, said);
  auto const process = report.at("processes").at(0);
  auto const allocator = process.at("devices").at(0).at("allocator");
  EXPECT_GT(process.at("convolutions_in_no_table"), 0);
  EXPECT_GT(process.at("scratch_answers").at("convolution_planned").at("answers"), 0);
  EXPECT_EQ(process.at("scratch_answers").at("convolution_table").at("answers"), 0);
  EXPECT_LE(allocator.at("peak_allocated_low_bytes"), allocator.at("peak_allocated_bytes"));
  EXPECT_GT(allocator.at("peak_allocated_high_bytes"), allocator.at("peak_allocated_bytes"));
}

TEST(DryLauncher, OutOfMemoryIsReportedWithTheRequestThatFailed) {
  Said said;
  auto const report = report_of("--card h200 --budget 200MiB", MAXBATCH_DRY_CONVOLUTION_TRAINING " 64", said);
  EXPECT_EQ(said.exit_code, 128 + SIGABRT);
  auto const device = report.at("processes").at(0).at("devices").at(0);
  auto const allocator = device.at("allocator");
  EXPECT_GE(allocator.at("out_of_memory"), 1) << "cuDNN's plans that LibTorch tried and gave up count, too";
  EXPECT_GE(allocator.at("retries"), 1);
  EXPECT_EQ(allocator.at("failed_request").at("requested_bytes"), std::int64_t{64} * 64 * 64 * 64 * 4) << allocator;
  EXPECT_LE(allocator.at("peak_reserved_bytes"), 200 << 20);
}

TEST(DryLauncher, SeveralSeedsGiveASpread) {
  Said said;
  auto const report = report_of("--card h200 --seeds 3", MAXBATCH_DRY_CONVOLUTION_TRAINING, said);
  EXPECT_EQ(said.exit_code, 0);
  EXPECT_EQ(std::count(said.text.begin(), said.text.end(), '\n'), 1) << "one run speaks: " << said.text;
  auto const seeds = report.at("seeds");
  ASSERT_EQ(seeds.at("runs").size(), 3U);
  std::map<std::int64_t, int> peaks;
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(seeds.at("runs").at(i).at("seed"), i + 1);
    ++peaks[seeds.at("runs").at(i).at("peak_segment_bytes").get<std::int64_t>()];
  }
  auto const spread = seeds.at("peak_segment_bytes");
  EXPECT_EQ(spread.at("min"), peaks.begin()->first);
  EXPECT_EQ(spread.at("max"), peaks.rbegin()->first);
  EXPECT_EQ(spread.at("count"), peaks.at(spread.at("most_frequent").get<std::int64_t>()));
}

// A dry card stands for the card that profile-gpu reads: the whole circle of questions, answers and profile, without a GPU.
TEST(DryLauncher, QuestionsAreWrittenAnsweredAndThenKnown) {
  Folder const folder;
  auto const questions = folder.file("questions");
  auto const training = std::string(" -- ") + MAXBATCH_DRY_CONVOLUTION_TRAINING;
  auto said = run_maxbatch("dry-run --card rtx-3090 --questions " + questions + training);
  ASSERT_EQ(said.exit_code, 0) << said.text;
  EXPECT_THAT(said.text, HasSubstr("new convolutions in " + questions));
  auto const asked = read_file(questions);
  EXPECT_THAT(asked, HasSubstr("forward 16,3,64,64 64,3,3,3 1,1 1,1 1,1 contiguous float tf32\n"));

  said = run_maxbatch("dry-run --card rtx-3090 --questions " + questions + training);
  EXPECT_THAT(said.text, HasSubstr("0 new convolutions"));
  EXPECT_EQ(read_file(questions), asked);

  said = run_maxbatch("dry-run --card rtx-3090 -- " MAXBATCH_PROGRAM " profile-gpu --questions " + questions +
                      " --output " + folder.path());
  ASSERT_EQ(said.exit_code, 0) << said.text;
  auto const profile = folder.file("nvidia-geforce-rtx-3090.card.txt");
  EXPECT_THAT(read_file(profile), HasSubstr("name = NVIDIA GeForce RTX 3090\n"));
  EXPECT_THAT(read_file(folder.file("nvidia-geforce-rtx-3090.convolutions.txt")),
              HasSubstr("# card: NVIDIA GeForce RTX 3090"));

  Said known;
  auto const report = report_of("--card-profile " + profile, MAXBATCH_DRY_CONVOLUTION_TRAINING, known);
  auto const process = report.at("processes").at(0);
  EXPECT_EQ(report.at("device_name"), "NVIDIA GeForce RTX 3090");
  EXPECT_EQ(process.at("convolutions_in_no_table"), 0);
  EXPECT_GT(process.at("scratch_answers").at("convolution_table").at("answers"), 0);
  auto const allocator = process.at("devices").at(0).at("allocator");
  EXPECT_EQ(allocator.at("peak_allocated_low_bytes"), allocator.at("peak_allocated_high_bytes"));
}

#endif

// The shipped table's answers come back through profile-gpu: it asks as LibTorch does.
TEST(ProfileGpu, ADryH200AnswersAsItsTable) {
  Folder const folder;
  auto const expected = some_answers(read_file(MAXBATCH_H200_TABLE), 1600);
  EXPECT_GT(expected.size(), 128U);  // enough for two processes
  write_questions(folder.file("questions"), expected);
  auto const said = run_maxbatch("dry-run --card h200 -- " MAXBATCH_PROGRAM " profile-gpu --questions " +
                                 folder.file("questions") + " --jobs 2 --output " + folder.path());
  ASSERT_EQ(said.exit_code, 0) << said.text;
  EXPECT_EQ(some_answers(read_file(folder.file("nvidia-h200.convolutions.txt")), 1), expected);
}

TEST(ProfileGpu, ComplainsBeforeItTouchesTheCard) {
  Folder const folder;
  std::ofstream(folder.file("questions")) << "how are you\n";
  auto said = run_maxbatch("profile-gpu --questions " + folder.file("questions"));
  EXPECT_EQ(said.exit_code, 2);
  expect_one_sentence(said.text, "line 1: 'how are you' is no question about a convolution");
  said = run_maxbatch("profile-gpu --output " + folder.file("nowhere"));
  EXPECT_EQ(said.exit_code, 2);
  expect_one_sentence(said.text, "is no folder");
  said = run_maxbatch("dry-run --card h200 -- " MAXBATCH_PROGRAM " profile-gpu --device 3 --output " + folder.path());
  EXPECT_EQ(said.exit_code, 2);
  EXPECT_THAT(said.text, HasSubstr("profile-gpu: there is no device 3; there are 1"));
}

TEST(ProfileGpu, WithoutACardOneSentence) {
  Folder const folder;
  auto const said = run_maxbatch("profile-gpu --output " + folder.path());
  if (said.exit_code == 0) { GTEST_SKIP() << "there is a card here"; }
  EXPECT_EQ(said.exit_code, 2);
  expect_one_sentence(said.text, "profile-gpu: there is no card here");
}

}  // namespace
}  // namespace maxbatch::test
