// profile-gpu on a real card. On the H200, whose figures and table came from other tools, it must find the same ones.
#include "program_runs.hpp"
#include "table_answers.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <map>
#include <sstream>
#include <string>

namespace maxbatch::test {
namespace {

std::map<std::string, std::string> values_of(std::string const& profile) {
  std::map<std::string, std::string> values;
  std::istringstream lines(profile);
  for (std::string line; std::getline(lines, line);) {
    auto const equals = line.find(" = ");
    if (line.empty() || line.front() == '#' || equals == std::string::npos) { continue; }
    values[line.substr(0, equals)] = line.substr(equals + 3);
  }
  return values;
}

double mib(std::string const& bytes) { return std::strtod(bytes.c_str(), nullptr) / (1 << 20); }

TEST(ProfileGpuOnACard, TheH200IsReadAsItIsInTheCatalogueAndTheTable) {
  Folder const folder;
  auto const shipped = some_answers(read_file(MAXBATCH_H200_TABLE), 200);
  write_questions(folder.file("questions"), shipped);
  auto const said = run_maxbatch("profile-gpu --questions " + folder.file("questions") + " --output " + folder.path());
  if (said.text.find("there is no card here") != std::string::npos) { GTEST_SKIP() << "needs a card"; }
  ASSERT_EQ(said.exit_code, 0) << said.text;
  if (said.text.find("NVIDIA H200:") == std::string::npos) { GTEST_SKIP() << "needs an H200: " << said.text; }

  auto const text = read_file(folder.file("nvidia-h200.card.txt"));
  auto values = values_of(text);
  EXPECT_EQ(text.find("# Remark"), std::string::npos) << text;
  EXPECT_EQ(values.at("total_bytes"), "150109880320");
  EXPECT_EQ(values.at("multiprocessors"), "132");
  EXPECT_EQ(values.at("memory_bus_bits"), "6016");
  EXPECT_EQ(values.at("l2_bytes"), "62914560");
  EXPECT_EQ(values.at("shared_bytes_per_block_optin"), "232448");
  EXPECT_NEAR(mib(values.at("cublas_handle_bytes")), 64, 4) << text;
  EXPECT_NEAR(mib(values.at("grown_local_memory_bytes")), 504, 16) << text;
  EXPECT_NEAR(mib(values.at("context_bytes")), 518, 150) << text;

  EXPECT_GT(shipped.size(), 300U);
  EXPECT_EQ(some_answers(read_file(folder.file("nvidia-h200.convolutions.txt")), 1), shipped);
}

TEST(ProfileGpuOnACard, ASecondVisitAsksNothingAnew) {
  Folder const folder;
  std::ofstream(folder.file("questions")) << "forward 16,128,32,32 128,128,3,3 1,1 1,1 1,1 contiguous bfloat16 any\n";
  auto const command = "profile-gpu --questions " + folder.file("questions") + " --output " + folder.path();
  auto const first = run_maxbatch(command);
  if (first.text.find("there is no card here") != std::string::npos) { GTEST_SKIP() << "needs a card"; }
  EXPECT_THAT(first.text, testing::HasSubstr("1 convolutions asked, 0 known before"));
  EXPECT_THAT(run_maxbatch(command).text, testing::HasSubstr("0 convolutions asked, 1 known before"));
}

}  // namespace
}  // namespace maxbatch::test
