#include "support/state_hash.hpp"
#include "support/training_net.hpp"
#include <maxbatch/device/budgeted_cpu_device.hpp>
#include <maxbatch/training/max_batch_finder.hpp>

#include <torch/torch.h>

#include <gtest/gtest.h>

#include <cstdio>
#include <cstring>
#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <string>

#include <sys/wait.h>
#include <unistd.h>

namespace maxbatch {
namespace {

using namespace test;

// Every allocation of two whole steps (the optimizer's state is made in the first and resident in the second) is made to
// fail, each in a child of its own, so that one that ends the process is seen and the next starts clean. This binary runs
// no tensor operation before it forks: thread pools do not survive a fork.

constexpr std::int64_t kBatchSize = 3;
constexpr std::size_t kReportSize = 512;

struct Report {
  char problem[kReportSize];  // empty: all as it must be
  char phase[32];             // where the injected failure struck
  bool injected;              // false: the steps have fewer allocations
  float next_loss;
};

void say(Report& report, std::string const& problem) {
  if (report.problem[0] == '\0') { std::strncpy(report.problem, problem.c_str(), kReportSize - 1); }
}

/// `k` = 0: no failure, the control.
void run_in_child(std::string const& optimizer_kind, std::int64_t k, Report& report) {
  at::set_num_threads(1);
  torch::manual_seed(42);
  MixedTraining training(optimizer_kind);
  auto const hash = [&training] { return StateHash().add(*training.net).add(*training.optimizer).add_process(); };
  auto const before = hash();
  auto const device = budgeted_cpu_device();
  FinderOptions options;
  options.steps = 2;
  options.search.minimum = kBatchSize;
  options.search.maximum = kBatchSize;
  options.search.max_trials = 1;
  MaxBatchFinder finder(device, options);
  finder.preserve(training.net).preserve(training.optimizer);
  device->fail_allocation(k);
  auto const result = finder.find([&](Trial& trial) { training.step(trial); });
  auto const& outcome = result.search.trials.at(0).outcome;
  report.injected = outcome.verdict != Verdict::fits;
  if (report.injected) {
    if (outcome.verdict != Verdict::out_of_memory) {
      say(report, "classified as " + std::string(to_string(outcome.verdict)) + ": " + outcome.reason);
    }
    if (outcome.failed_request) {
      std::strncpy(report.phase, std::string(to_string(outcome.failed_request->phase)).c_str(),
                   sizeof report.phase - 1);
    }
  }
  for (auto const& warning : result.warnings) { say(report, warning); }
  for (auto const& part : before.differences(hash())) { say(report, "differs afterwards: " + part); }
  report.next_loss = step_outside_a_finder(training, kBatchSize).item<float>();
}

struct Ended {
  bool normally = false;
  int signal = 0;
  Report report = {};
};

Ended fork_and_run(std::string const& optimizer_kind, std::int64_t k) {
  int channel[2];
  if (pipe(channel) != 0) { throw std::runtime_error("no pipe"); }
  std::fflush(nullptr);
  auto const child = fork();
  if (child == 0) {
    close(channel[0]);
    Report report = {};
    try {
      run_in_child(optimizer_kind, k, report);
    } catch (std::exception const& error) { say(report, std::string("left the finder: ") + error.what()); }
    auto const written = write(channel[1], &report, sizeof report);
    _exit(written == static_cast<ssize_t>(sizeof report) ? 0 : 1);
  }
  close(channel[1]);
  Ended ended;
  auto const got = read(channel[0], &ended.report, sizeof ended.report);
  close(channel[0]);
  int status = 0;
  waitpid(child, &status, 0);
  ended.normally = WIFEXITED(status) && WEXITSTATUS(status) == 0 && got == static_cast<ssize_t>(sizeof ended.report);
  ended.signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
  return ended;
}

/// "OPTIMIZER K CAUSE…" a line: allocations at whose failure LibTorch itself ends the process. The list only shrinks.
std::map<std::string, std::set<std::int64_t>> known_terminations() {
  std::map<std::string, std::set<std::int64_t>> known;
  std::ifstream file(MAXBATCH_TEST_DATA_DIR "/terminating_allocations.txt");
  for (std::string line; std::getline(file, line);) {
    std::istringstream fields(line);
    std::string kind;
    std::int64_t k = 0;
    if (line.front() != '#' && fields >> kind >> k) { known[kind].insert(k); }
  }
  return known;
}

class FaultInjection : public ::testing::TestWithParam<std::string> {};

TEST_P(FaultInjection, EveryAllocationOfTwoStepsMayFail) {
  auto const kind = GetParam();
  auto const control = fork_and_run(kind, 0);
  ASSERT_TRUE(control.normally && !control.report.injected) << control.report.problem;
  std::map<std::string, int> by_phase;
  std::set<std::int64_t> terminating;
  constexpr std::int64_t kFarTooMany = 20000;
  std::int64_t k = 1;
  for (; k < kFarTooMany; ++k) {
    auto const ended = fork_and_run(kind, k);
    if (!ended.normally) {
      terminating.insert(k);
      continue;
    }
    ASSERT_STREQ(ended.report.problem, "") << "allocation " << k << " in phase " << ended.report.phase;
    ASSERT_EQ(std::memcmp(&ended.report.next_loss, &control.report.next_loss, sizeof(float)), 0)
        << "allocation " << k << ": the next loss is " << ended.report.next_loss << ", not "
        << control.report.next_loss;
    if (!ended.report.injected) { break; }
    ++by_phase[ended.report.phase];
  }
  ASSERT_LT(k, kFarTooMany);
  std::printf("%s: %ld allocations;", kind.c_str(), static_cast<long>(k - 1));
  for (auto const& [phase, count] : by_phase) { std::printf(" %s %d,", phase.c_str(), count); }
  std::printf(" terminating %zu\n", terminating.size());
  for (auto const* phase : {"forward", "backward", "optimizer"}) { EXPECT_GT(by_phase[phase], 5) << phase; }
  EXPECT_EQ(terminating, known_terminations()[kind])
      << "LibTorch ended the process at these; tests/data/terminating_allocations.txt lists those known, and only "
         "shrinks";
}

INSTANTIATE_TEST_SUITE_P(Optimizers, FaultInjection, ::testing::Values("sgd", "adam", "adamw", "rmsprop", "lbfgs"),
                         [](auto const& instance) { return instance.param; });

}  // namespace
}  // namespace maxbatch
