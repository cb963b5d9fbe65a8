// What `maxbatch find -- PROGRAM` refuses before anything is started; tests/program_search runs programs.
#include "session.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

namespace maxbatch::test {
namespace {

using Words = std::vector<std::string>;

struct Mistake {
  Words arguments;
  std::string complaint;
};

TEST(FindProgram, SaysWhatIsWrongInOneSentenceBeforeAnyWork) {
  std::vector<Mistake> const mistakes = {
      {Words({"find", "--model", "rows", "--vary", "--batch"}), "--vary, --to-the-end and --jobs are about a program"},
      {Words({"find", "--model", "rows", "--jobs", "0"}), "--jobs '0' is not a whole number of at least 1"},
      {{"find", "--card", "rtx-3091", "--", "true", "{}"}, "no card is called 'rtx-3091'; did you mean"},
      {{"find", "--", "true", "{}"}, "give --card NAME for a card that is not here"},
      {Words({"find", "--model", "rows", "--", "true", "{}"}), "--model rows and a program after -- are two questions"},
      {{"find", "--card", "h200", "--", "true"}, "nothing in the command varies: write {} where the number goes"},
      {{"find", "--card", "h200", "--vary", "--batch", "--", "true"}, "--vary --batch: the command has no such"},
      {{"find", "--card", "h200", "--precision", "bf16", "--", "true", "{}"}, "--precision is about models of ours"},
      {{"find", "--card", "h200", "--steps", "1", "--", "true", "{}"}, "--steps 1 would miss"},
      {{"find", "--card", "h200", "--min", "8", "--max", "4", "--", "true", "{}"}, "--min 8 is above --max 4"},
      {{"find", "--card", "h200", "--", "no-such-program", "{}"}, "'no-such-program' is in no folder of PATH"}};
  for (auto const& [arguments, complaint] : mistakes) {
    SCOPED_TRACE(testing::PrintToString(arguments));
    auto const session = run(arguments);
    EXPECT_EQ(session.code, 2);
    EXPECT_EQ(session.out, "");
    EXPECT_THAT(session.err, testing::AllOf(testing::StartsWith("maxbatch: "), testing::HasSubstr(complaint)));
    EXPECT_EQ(std::count(session.err.begin(), session.err.end(), '\n'), 1) << session.err;
  }
}

}  // namespace
}  // namespace maxbatch::test
