#include "cli/program_verdict.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <memory>

namespace maxbatch::cli {
namespace {

using testing::HasSubstr;

constexpr char const* kOutOfMemory = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 56.00 MiB.";

/// A page of one process that has run so many steps.
std::unique_ptr<dry::ReportPage> page_of(std::int64_t steps) {
  auto page = std::make_unique<dry::ReportPage>();
  page->processes = 1;
  auto& process = page->process.front();
  process.allocator.front().watched = 1;
  process.allocator.front().peak_reserved_bytes = 1000;
  process.allocator.front().peak_allocated_bytes = 900;
  process.allocator.front().total_bytes = 5000;
  if (steps > 0) {
    process.steps.mark = dry::StepMark::optimizer;
    process.steps.complete = steps;
  }
  return page;
}

void refuse(dry::ReportPage& page, std::int64_t before = 0) {
  auto& allocator = page.process.front().allocator.front();
  allocator.out_of_memory = before + 1;
  allocator.failed_request_bytes = 50;
  allocator.failed_phase = dry::WatchedPhase::backward;
  allocator.failed_reserved_bytes = 980;
  allocator.last_out_of_memory = {60, 900, 4000};
  page.process.front().steps.out_of_memory_before = before;
}

ProgramEnd ended(int code, std::string words = "", bool by_signal = false) {
  ProgramEnd end;
  end.process.code = code;
  end.process.by_signal = by_signal;
  end.last_words = std::move(words);
  end.command = "python";
  end.wanted_steps = 3;
  return end;
}

TrialOutcome judge(dry::ReportPage const& page, ProgramEnd const& end) {
  return judge_program(progress_of(page, Bytes{1000}), end);
}

TEST(ProgramVerdict, StepsThatSettledFit) {
  auto const page = page_of(3);
  ProgramEnd end = ended(0);
  end.kind = ProgramEnd::Kind::settled;
  auto const outcome = judge(*page, end);
  EXPECT_EQ(outcome.verdict, Verdict::fits);
  EXPECT_EQ(outcome.steps, 3);
  EXPECT_EQ(outcome.peaks.reserved, Bytes{1000});
  EXPECT_EQ(outcome.reason, "");
}

TEST(ProgramVerdict, ARefusedRequestThatEndedTheProgramIsOutOfMemory) {
  auto const page = page_of(1);
  refuse(*page);
  auto const outcome = judge(*page, ended(1, kOutOfMemory));
  EXPECT_EQ(outcome.verdict, Verdict::out_of_memory);
  ASSERT_TRUE(outcome.failed_request);
  EXPECT_EQ(outcome.failed_request->phase, Phase::backward);
  EXPECT_EQ(outcome.failed_request->requested, Bytes{50});
  EXPECT_EQ(outcome.failed_request->segment, Bytes{60});
  EXPECT_EQ(outcome.failed_request->short_by_at_least, Bytes{40}) << "20 of the budget were left";
}

TEST(ProgramVerdict, AProgramThatSaysNothingOfItDiedOfItToo) {
  auto const page = page_of(1);
  refuse(*page);
  EXPECT_EQ(judge(*page, ended(3, "giving up\n")).verdict, Verdict::out_of_memory);
  EXPECT_EQ(judge(*page, ended(SIGABRT, "", true)).verdict, Verdict::out_of_memory);
}

TEST(ProgramVerdict, ARefusedRequestBeforeAnotherExceptionIsOnlyLikely) {
  auto const page = page_of(1);
  refuse(*page);
  auto const outcome = judge(*page, ended(1, "Traceback:\n  File x\nValueError: shapes differ\n"));
  EXPECT_EQ(outcome.verdict, Verdict::likely_out_of_memory);
  EXPECT_THAT(outcome.reason, HasSubstr("ValueError: shapes differ"));
}

TEST(ProgramVerdict, ARequestThatWasRefusedBeforeTheLastStepIsNoFailure) {
  auto const page = page_of(3);
  refuse(*page);
  page->process.front().steps.out_of_memory_before = 1;
  auto const passed = judge(*page, ended(0));
  EXPECT_EQ(passed.verdict, Verdict::fits_under_pressure);
  EXPECT_THAT(passed.reason, HasSubstr("1 requests refused after which the program went on"));
  auto const failed = judge(*page, ended(1, "ValueError: shapes differ\n"));
  EXPECT_EQ(failed.verdict, Verdict::failed);
  EXPECT_THAT(failed.reason, HasSubstr("python ended with exit code 1 after 3 steps"));
}

TEST(ProgramVerdict, ExitCodeZeroAfterARefusalWithoutAnotherStepIsSwallowed) {
  auto const page = page_of(1);
  refuse(*page);
  EXPECT_EQ(judge(*page, ended(0)).verdict, Verdict::swallowed_out_of_memory);
  auto const without_steps = page_of(0);
  refuse(*without_steps);
  EXPECT_EQ(judge(*without_steps, ended(0)).verdict, Verdict::swallowed_out_of_memory);
}

TEST(ProgramVerdict, TooFewStepsAreSaid) {
  auto const outcome = judge(*page_of(1), ended(0));
  EXPECT_EQ(outcome.verdict, Verdict::fits);
  EXPECT_EQ(outcome.steps, 1);
  EXPECT_EQ(outcome.reason, "came to its own end after 1 step, and 3 were wanted");
  EXPECT_EQ(judge(*page_of(0), ended(0)).reason, "ran to its own end, in which no training step was seen");
}

TEST(ProgramVerdict, AProgramThatUsesNoCardFails) {
  dry::ReportPage const page;
  auto const outcome = judge(page, ended(0, "hello\n"));
  EXPECT_EQ(outcome.verdict, Verdict::failed);
  EXPECT_EQ(outcome.reason, "python asked CUDA's runtime for nothing: it uses no GPU; it last printed: hello");
}

TEST(ProgramVerdict, OtherFailuresAreToldWithTheLastWords) {
  auto const page = page_of(0);
  EXPECT_THAT(judge(*page, ended(2, "usage: train.py\n")).reason,
              HasSubstr("python ended with exit code 2 after 0 steps; it last printed: usage: train.py"));
  auto const killed = judge(*page, ended(SIGKILL, "", true));
  EXPECT_EQ(killed.verdict, Verdict::failed);
  EXPECT_THAT(killed.reason, HasSubstr("was killed by signal 9 (Killed)"));
  EXPECT_THAT(killed.reason, HasSubstr("as Linux does when the host's memory runs out; it printed nothing"));
  EXPECT_EQ(judge(*page, ended(1, "MemoryError\n")).verdict, Verdict::out_of_host_memory);
  EXPECT_EQ(judge(*page, ended(1, kOutOfMemory)).verdict, Verdict::likely_out_of_memory) << "nobody saw a refusal";
}

TEST(ProgramVerdict, TakingTooLongSaysHowFarItCame) {
  ProgramEnd end = ended(0, "epoch 1\n");
  end.kind = ProgramEnd::Kind::timed_out;
  end.seconds = 20;
  auto const outcome = judge(*page_of(2), end);
  EXPECT_EQ(outcome.verdict, Verdict::timed_out);
  EXPECT_EQ(outcome.reason,
            "the trial took longer than the 20 s that it was given; 2 steps had ended; it last printed: epoch 1");
}

TEST(ProgramVerdict, OfSeveralProcessesTheSlowestCountsAndTheLargest) {
  auto const page = page_of(5);
  page->processes = 2;
  page->process[1] = page->process[0];
  page->process[1].steps.complete = 2;
  page->process[1].allocator.front().peak_reserved_bytes = 3000;
  page->process[0].steps.settled = 1;
  auto progress = progress_of(*page, std::nullopt);
  EXPECT_EQ(progress.steps, 2);
  EXPECT_EQ(progress.peaks.reserved, Bytes{3000});
  EXPECT_FALSE(progress.has_settled);
  page->process[1].steps.settled = 1;
  EXPECT_TRUE(progress_of(*page, std::nullopt).has_settled);
}

}  // namespace
}  // namespace maxbatch::cli
