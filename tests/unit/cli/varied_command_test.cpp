#include "cli/varied_command.hpp"

#include "cli/usage_error.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace maxbatch::cli {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

template <typename Work>
std::string complaint_of(Work const& work) {
  try {
    work();
  } catch (UsageError const& error) { return error.what(); }
  return "no complaint";
}

TEST(VariedCommand, ANumberInPlaceOfEachPairOfBraces) {
  VariedCommand const command({"python", "train.py", "--batch-size", "{}", "--run=b{}"}, "");
  EXPECT_THAT(command.with(12), ElementsAre("python", "train.py", "--batch-size", "12", "--run=b12"));
  EXPECT_EQ(command.text(), "python train.py --batch-size {} --run=b{}");
  EXPECT_EQ(command.name(), "--batch-size");
}

TEST(VariedCommand, TheValueOfAnArgumentInEachWayToWriteIt) {
  EXPECT_THAT(VariedCommand({"python", "train.py", "-b", "8"}, "-b").with(12),
              ElementsAre("python", "train.py", "-b", "12"));
  EXPECT_THAT(VariedCommand({"python", "train.py", "--batch=8"}, "--batch").with(12),
              ElementsAre("python", "train.py", "--batch=12"));
  EXPECT_THAT(VariedCommand({"python", "train.py", "data.batch=8"}, "data.batch").with(12),
              ElementsAre("python", "train.py", "data.batch=12"));
  EXPECT_THAT(VariedCommand({"python", "train.py", "--batch", "{}"}, "--batch").with(12),
              ElementsAre("python", "train.py", "--batch", "12"));
}

TEST(VariedCommand, BracesOfTheProgramsOwnStayWhereAnArgumentIsNamed) {
  VariedCommand const command({"python", "train.py", "--config", "{}", "--batch", "8"}, "--batch");
  EXPECT_THAT(command.with(12), ElementsAre("python", "train.py", "--config", "{}", "--batch", "12"));
  EXPECT_EQ(command.name(), "--batch");
}

TEST(VariedCommand, SaysWhatIsMissing) {
  EXPECT_THAT(complaint_of([] {
                VariedCommand({"python", "train.py"}, "");
              }),
              HasSubstr("nothing in the command varies: write {} where the number goes"));
  EXPECT_THAT(complaint_of([] {
                VariedCommand({"python", "train.py", "--batch"}, "--batch");
              }),
              HasSubstr("--vary --batch: the command has no such argument with a value"));
  EXPECT_THAT(complaint_of([] { VariedCommand({"{}"}, ""); }), HasSubstr("nothing in the command varies"));
}

TEST(VariedCommand, IsToldAsAShellWouldTakeIt) {
  VariedCommand const command({"python", "-c", "print('a b')", "{}"}, "");
  EXPECT_EQ(command.text(), "python -c 'print('\\''a b'\\'')' {}");
}

}  // namespace
}  // namespace maxbatch::cli
