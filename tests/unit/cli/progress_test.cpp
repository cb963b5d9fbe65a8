#include "cli/progress.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>
#include <string>

namespace maxbatch::cli {
namespace {

using testing::EndsWith;
using testing::HasSubstr;
using testing::StartsWith;

TrialRecord out_of_memory_at(std::int64_t batch_size) {
  TrialRecord record;
  record.batch_size = batch_size;
  record.purpose = TrialPurpose::bracket;
  record.outcome = TrialOutcome::out_of_memory();
  record.outcome.failed_request.emplace();
  record.outcome.failed_request->phase = Phase::backward;
  record.outcome.failed_request->requested = Bytes{1 << 20};
  record.seconds = 0.5;
  return record;
}

SearchProgress progress_after(std::int64_t trials) {
  SearchProgress progress;
  progress.trials_so_far = trials;
  progress.largest_fitting = 12;
  progress.smallest_failing = 16;
  return progress;
}

TEST(StatusStream, NeverTouchesAPlainStreamButForWholeLines) {
  std::ostringstream text;
  {
    StatusStream stream(text, StatusStream::Kind::plain);
    stream.show("live");
    stream.write_line("a line");
    stream.clear();
  }
  EXPECT_EQ(text.str(), "a line\n");
}

TEST(StatusStream, MakesRoomForWholeLinesAndClearsTheLiveOneAtTheEnd) {
  std::ostringstream text;
  {
    StatusStream stream(text, StatusStream::Kind::terminal);
    stream.show("live");
    stream.write_line("a line");
  }
  EXPECT_EQ(text.str(),
            "\rlive\x1b[K"
            "\r\x1b[K"
            "a line\n"
            "\rlive\x1b[K"
            "\r\x1b[K");
}

TEST(StatusStream, CutsTheLiveLineToTheTerminal) {
  std::ostringstream text;
  StatusStream stream(text, StatusStream::Kind::terminal);
  stream.show(std::string(10'000, 'x'));
  EXPECT_LT(text.str().size(), 1000U);
}

TEST(ProgressReporter, WritesALineWhenATrialIsOver) {
  std::ostringstream text;
  StatusStream stream(text, StatusStream::Kind::plain);
  ProgressReporter reporter(stream, "net");
  reporter.trial_started(14, TrialPurpose::bracket, progress_after(2));
  EXPECT_EQ(text.str(), "");
  reporter.trial_finished(out_of_memory_at(14));
  EXPECT_EQ(text.str(), "net: trial 3: batch 14 (bracket) out of memory in backward, asking for 1 MiB, 0.50 s\n");
}

TEST(ProgressReporter, KeepsOneLiveLineOnATerminal) {
  std::ostringstream text;
  {
    StatusStream stream(text, StatusStream::Kind::terminal);
    ProgressReporter reporter(stream, "");
    reporter.trial_started(14, TrialPurpose::bracket, progress_after(2));
    reporter.trial_finished(out_of_memory_at(14));
  }
  EXPECT_THAT(text.str(), StartsWith("\rtrial 3, 0.0 s: batch 14 (bracket); so far fits 12, fails 16\x1b[K"));
  EXPECT_THAT(text.str(), EndsWith("\r\x1b[K"));
  EXPECT_THAT(text.str(), testing::Not(HasSubstr("\n")));
}

}  // namespace
}  // namespace maxbatch::cli
