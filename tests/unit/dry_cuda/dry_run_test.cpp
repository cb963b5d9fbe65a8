#include "program_runs.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <array>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>

#include <sys/wait.h>

namespace maxbatch::test {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

Said dry_run(std::string const& arguments) { return run_maxbatch("dry-run " + arguments); }

nlohmann::json run_with_report(std::string const& options, std::string const& program, Said& said) {
  auto const path = testing::TempDir() + testing::UnitTest::GetInstance()->current_test_info()->name();
  said = dry_run(options + " --report " + path + " -- " + program);
  std::ifstream file(path);
  auto json = nlohmann::json::parse(file, nullptr, /*allow_exceptions=*/false);
  std::filesystem::remove(path);
  return json;
}

// Peaks that the real allocator had on an H200: data/op-traces, mlp_32.
TEST(DryRun, ATrainingProgramHasThePeaksThatItHadOnTheCard) {
  Said said;
  auto const report = run_with_report("--card h200", MAXBATCH_MLP_TRAINING, said);
  EXPECT_EQ(said.exit_code, 0);
  EXPECT_THAT(said.text, testing::HasSubstr("allocated peak 82187264\nreserved peak 96468992\n"));
  auto const device = report.at("processes").at(0).at("devices").at(0);
  EXPECT_EQ(device.at("peak_segment_bytes"), 96468992);
  EXPECT_EQ(device.at("refusals"), 0);
  EXPECT_EQ(report.at("device_name"), "NVIDIA H200");
}

TEST(DryRun, AProgramThatDiesOutOfMemoryIsReportedAllTheSame) {
  Said said;
  auto const report = run_with_report("--card h200 --budget 40MiB", MAXBATCH_MLP_TRAINING, said);
  EXPECT_EQ(said.exit_code, 128 + SIGABRT);
  EXPECT_THAT(said.text, testing::HasSubstr("CUDA out of memory"));
  EXPECT_EQ(report.at("exit_code"), 128 + SIGABRT);
  EXPECT_EQ(report.at("budget_bytes"), 40 << 20);
  auto const device = report.at("processes").at(0).at("devices").at(0);
  EXPECT_GE(device.at("refusals").get<int>(), 1);
  EXPECT_LE(device.at("peak_segment_bytes").get<std::int64_t>(), 40 << 20);
  EXPECT_EQ(device.at("last_refused").at("requested_bytes"), 32 << 20) << "cuBLAS's workspace";
}

// The figures come back that the dry card was made of, so what profile-gpu watches is what a dry card does.
TEST(DryRun, ProfileGpuReadsADryCardAsItIsInTheCatalogue) {
  Folder const folder;
  auto const said = dry_run("--card h200 -- " MAXBATCH_PROGRAM " profile-gpu --jobs 1 --output " + folder.path());
  ASSERT_EQ(said.exit_code, 0) << said.text;
  auto const profile = read_file(folder.file("nvidia-h200.card.txt"));
  EXPECT_THAT(profile, HasSubstr("\nlocal_memory_bytes = 434110464\n"));
  EXPECT_THAT(profile, HasSubstr("\ngrown_local_memory_bytes = 528482304\n"));
  EXPECT_THAT(profile, HasSubstr("\ncublas_handle_bytes = 67108864\n"));
  EXPECT_THAT(profile, Not(HasSubstr("Remark")));
}

TEST(DryRun, PassesTheExitCodeOnAndSaysWhereThereWasNoCard) {
  auto const said = dry_run("--card h200 -- sh -c 'exit 7'");
  EXPECT_EQ(said.exit_code, 7);
  EXPECT_THAT(said.text, testing::HasSubstr("asked CUDA's runtime for nothing"));
  EXPECT_EQ(dry_run("--card h200 -- sh -c 'kill -TERM $$'").exit_code, 128 + SIGTERM);
}

TEST(DryRun, HandsTheArgumentsOnAsTheyAre) {
  auto const said = dry_run(R"(--card h200 -- printf '<%s>' '["swin",8,{"a":1}]' --card '' '[]' -h -- a,b)");
  EXPECT_EQ(said.exit_code, 0);
  EXPECT_THAT(said.text, testing::StartsWith(R"(<["swin",8,{"a":1}]><--card><><[]><-h><--><a,b>)"));
}

TEST(DryRun, RefusesInOneSentence) {
  for (auto const* const arguments :
       {"--card rtx-9999 -- true", "--card h200 --budget 0 -- true", "--card h200 -- /no/such/program", "--card h200",
        "-- true", "--card h200 --devices 0 -- true", "--card h200 true", "--card h200 --"}) {
    auto const said = dry_run(arguments);
    EXPECT_EQ(said.exit_code, 2) << arguments;
    EXPECT_THAT(said.text, testing::StartsWith("maxbatch: ")) << arguments;
    EXPECT_EQ(std::count(said.text.begin(), said.text.end(), '\n'), 1) << said.text;
  }
}

}  // namespace
}  // namespace maxbatch::test
