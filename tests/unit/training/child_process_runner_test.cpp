#include <maxbatch/device/budgeted_cpu_device.hpp>
#include <maxbatch/models/registry.hpp>
#include <maxbatch/search/errors.hpp>
#include <maxbatch/simulation/card_catalogue.hpp>
#include <maxbatch/training/child_process_runner.hpp>
#include <maxbatch/training/max_batch_finder.hpp>

#include <torch/torch.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <iterator>
#include <string>
#include <thread>

#include <sys/wait.h>
#include <unistd.h>

namespace maxbatch {
namespace {

using ::testing::HasSubstr;

constexpr Bytes kBudget{64 << 20};
constexpr std::int64_t kBad = 7;

/// A step of a few MiB a sample that does `what` from kBad samples on.
ModelFactory misbehaving(std::string name, std::function<void()> what, std::int64_t from = kBad) {
  ModelFactory factory;
  factory.name = std::move(name);
  factory.make = [what, from](c10::Device device, Recipe const&) {
    PreparedStep prepared;
    prepared.step = [what, from, device](Trial& trial) {
      auto const tensor = torch::zeros({trial.batch_size(), 1 << 18}, device);
      if (trial.batch_size() >= from) { what(); }
      EXPECT_TRUE(tensor.defined());
    };
    return prepared;
  };
  return factory;
}

void hang() {
  for (;;) { std::this_thread::sleep_for(std::chrono::seconds(1)); }
}

std::vector<ModelFactory> known_models() {
  auto registry = models::ModelRegistry::built_in();
  registry.add(misbehaving("crashes", [] { std::raise(SIGSEGV); }));
  registry.add(misbehaving("exits", [] {
    std::cerr << "I have had enough\n";
    std::exit(3);
  }));
  registry.add(misbehaving("hangs", hang));
  registry.add(misbehaving("throws", [] { throw std::runtime_error("the data ran out"); }));
  registry.add(misbehaving(
      "throws_at_once", [] { throw std::runtime_error("the data ran out"); }, 1));
  registry.add(misbehaving(
      "crashes_at_once", [] { std::abort(); }, 1));
  registry.add(misbehaving("loses_its_device",
                           [] { throw std::runtime_error("CUDA error: an illegal memory access was encountered"); }));
  return registry.all();
}

ChildProcessOptions on_cpu() {
  ChildProcessOptions options;
  options.world.device = "cpu";
  return options;
}

FinderResult find(std::string const& model, ChildProcessOptions options = on_cpu()) {
  FinderOptions finder;
  finder.search.maximum = 512;
  return ChildProcessRunner(std::move(options)).find(model, {}, finder, kBudget);
}

FinderResult find_here(std::string const& model) {
  for (auto const& factory : known_models()) {
    if (factory.name != model) { continue; }
    FinderOptions finder;
    finder.search.maximum = 512;
    return MaxBatchFinder(budgeted_cpu_device(kBudget), finder).find(factory);
  }
  throw std::logic_error("no such model");
}

std::ptrdiff_t open_files() {
  return std::distance(std::filesystem::directory_iterator("/proc/self/fd"), std::filesystem::directory_iterator());
}

/// Whatever a test does, no process and no open file is left.
class ChildProcessRunnerTest : public ::testing::Test {
 protected:
  void TearDown() override {
    EXPECT_EQ(waitpid(-1, nullptr, WNOHANG), -1) << "a child is left";
    EXPECT_EQ(open_files(), open_files_before_);
  }

 private:
  std::ptrdiff_t open_files_before_ = open_files();
};

TEST_F(ChildProcessRunnerTest, AnswersAsTheSameSearchInThisProcess) {
  auto const here = find_here("small_cnn");
  for (auto const fresh : {false, true}) {
    auto options = on_cpu();
    options.fresh_process_per_trial = fresh;
    auto const there = find("small_cnn", options);
    EXPECT_EQ(there.batch_size(), here.batch_size());
    EXPECT_EQ(there.search.next_batch_size, here.search.next_batch_size);
    EXPECT_EQ(there.search.proof, here.search.proof);
    ASSERT_NE(there.search.answer(), nullptr);
    EXPECT_EQ(there.search.answer()->outcome.peaks, here.search.answer()->outcome.peaks);
    EXPECT_EQ(there.search.answer()->outcome.phases.size(), here.search.answer()->outcome.phases.size());
    EXPECT_EQ(there.search.next_failure()->outcome.failed_request->requested,
              here.search.next_failure()->outcome.failed_request->requested);
    EXPECT_EQ(there.device.name, here.device.name);
    EXPECT_EQ(there.device.budget, here.device.budget);
    EXPECT_EQ(there.summary(), here.summary());
  }
}

TEST_F(ChildProcessRunnerTest, OneChildAnswersSeveralSearches) {
  ChildProcessRunner runner(on_cpu());
  FinderOptions options;
  std::int64_t before = 0;
  for (std::int64_t const mib : {32, 64, 128}) {
    auto const found = runner.find("small_cnn", {}, options, Bytes{mib << 20});
    EXPECT_GT(found.batch_size().value_or(0), before);
    before = found.batch_size().value_or(0);
  }
  EXPECT_THROW(runner.find("small_cn", {}, options, kBudget), InvalidArgument);
  EXPECT_EQ(runner.find("small_cnn", {}, options, Bytes{128 << 20}).batch_size(), before);
}

TEST_F(ChildProcessRunnerTest, ACrashIsTheOutcomeOfItsTrialAndTheSearchGoesOn) {
  auto const found = find("crashes");
  EXPECT_EQ(found.batch_size(), kBad - 1);
  EXPECT_EQ(found.search.proof, Proof::other_limit);
  EXPECT_THAT(found.search.reason, HasSubstr("killed by signal 11"));
}

TEST_F(ChildProcessRunnerTest, AnExitSaysWhatWasPrintedLast) {
  auto const found = find("exits");
  EXPECT_EQ(found.batch_size(), kBad - 1);
  EXPECT_THAT(found.search.reason, HasSubstr("exit code 3"));
  EXPECT_THAT(found.search.reason, HasSubstr("I have had enough"));
}

TEST_F(ChildProcessRunnerTest, AHangIsEndedAndSaid) {
  auto options = on_cpu();
  options.trial_timeout = std::chrono::seconds(4);
  auto const found = find("hangs", options);
  EXPECT_EQ(found.batch_size(), kBad - 1);
  ASSERT_NE(found.search.next_failure(), nullptr);
  EXPECT_EQ(found.search.next_failure()->outcome.verdict, Verdict::timed_out);
  EXPECT_THAT(found.search.reason, HasSubstr("longer than"));
}

TEST_F(ChildProcessRunnerTest, AnExceptionOfTheStepIsTheReasonThatTheAnswerIsNotLarger) {
  auto const found = find("throws");
  EXPECT_EQ(found.batch_size(), kBad - 1);
  EXPECT_EQ(found.search.proof, Proof::other_limit);
  EXPECT_THAT(found.search.reason, HasSubstr("the data ran out"));
}

TEST_F(ChildProcessRunnerTest, ALostDeviceIsReplacedWithItsProcess) {
  auto const found = find("loses_its_device");
  EXPECT_EQ(found.batch_size(), kBad - 1);
  EXPECT_EQ(found.search.proof, Proof::other_limit);
  EXPECT_THAT(found.search.reason, HasSubstr("illegal memory access"));
}

TEST_F(ChildProcessRunnerTest, AtTheSmallestSizeItIsAnError) {
  EXPECT_THROW(find("throws_at_once"), ChildFailure);
  try {
    find("crashes_at_once");
    ADD_FAILURE() << "no exception";
  } catch (ChildFailure const& failure) { EXPECT_THAT(failure.what(), HasSubstr("signal 6")); }
}

TEST_F(ChildProcessRunnerTest, WhatCannotBeAskedIsRefused) {
  EXPECT_THROW(find("small_cn"), InvalidArgument);
  auto unknown_card = on_cpu();
  unknown_card.world.dry_card = "rtx-2090";
  EXPECT_THROW(find("small_cnn", unknown_card), UnknownCard);
  auto no_time = on_cpu();
  no_time.trial_timeout = std::chrono::seconds(0);
  EXPECT_THROW(find("small_cnn", no_time), InvalidArgument);
  for (auto const* const program : {"/bin/true", "/bin/cat", "/no/such/program"}) {
    auto wrong_program = on_cpu();
    wrong_program.command = {program};
    EXPECT_THROW(find("small_cnn", wrong_program), ChildFailure) << program;
  }
}

}  // namespace
}  // namespace maxbatch

int main(int argc, char** argv) {
  maxbatch::answer_if_child(maxbatch::known_models());
  ::testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
