#include "dry_run_process.hpp"

#include "process/dry_world.hpp"
#include "process/start_process.hpp"
#include "program_file.hpp"
#include "usage_error.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <filesystem>
#include <fstream>
#include <limits>
#include <new>
#include <set>
#include <sstream>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

namespace maxbatch::cli {
namespace {

std::shared_ptr<dry::ReportPage> map_page(process::NamelessFile const& file) {
  auto* const memory = mmap(nullptr, sizeof(dry::ReportPage), PROT_READ | PROT_WRITE, MAP_SHARED, file.descriptor(), 0);
  if (memory == MAP_FAILED) { throw UsageError("dry-run: no memory for its report"); }
  return {new (memory) dry::ReportPage, [](dry::ReportPage* page) { munmap(page, sizeof(dry::ReportPage)); }};
}

/// The children that signals go to; 0: a free place. A handler reads it.
constexpr std::size_t kMostAtOnce = 64;
std::array<volatile std::sig_atomic_t, kMostAtOnce> children{};

void pass_on(int signal) {
  for (auto const& child : children) {
    if (child > 0) { kill(static_cast<pid_t>(child), signal); }
  }
}

void replace_child(pid_t was, pid_t is) {
  for (auto& child : children) {
    if (child != was) { continue; }
    child = is;
    return;
  }
}

/// While one lives, signals that would end this process go to the children, whose end is then ours.
class SignalsPassedOn {
 public:
  SignalsPassedOn() {
    struct sigaction action {};
    action.sa_handler = pass_on;
    sigemptyset(&action.sa_mask);
    for (std::size_t i = 0; i < kSignals.size(); ++i) { sigaction(kSignals.at(i), &action, &before_.at(i)); }
    // A terminal sends these to the child, too.
    action.sa_handler = SIG_IGN;
    sigaction(SIGINT, &action, &before_interrupt_);
    sigaction(SIGQUIT, &action, &before_quit_);
  }
  ~SignalsPassedOn() {
    for (std::size_t i = 0; i < kSignals.size(); ++i) { sigaction(kSignals.at(i), &before_.at(i), nullptr); }
    sigaction(SIGINT, &before_interrupt_, nullptr);
    sigaction(SIGQUIT, &before_quit_, nullptr);
  }
  SignalsPassedOn(SignalsPassedOn const&) = delete;
  SignalsPassedOn& operator=(SignalsPassedOn const&) = delete;

  /// In the child: as it was.
  void undo_in_child() const {
    for (std::size_t i = 0; i < kSignals.size(); ++i) { sigaction(kSignals.at(i), &before_.at(i), nullptr); }
    sigaction(SIGINT, &before_interrupt_, nullptr);
    sigaction(SIGQUIT, &before_quit_, nullptr);
  }

 private:
  static constexpr std::array<int, 4> kSignals = {SIGTERM, SIGHUP, SIGUSR1, SIGUSR2};
  std::array<struct sigaction, 4> before_{};
  struct sigaction before_interrupt_ {};
  struct sigaction before_quit_ {};
};

/// Where standard input, output and error of a child are.
enum class Streams { ours, nowhere };

void point_streams_nowhere() {
  auto const nowhere = open("/dev/null", O_RDWR);
  for (auto const stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) { dup2(nowhere, stream); }
}

/// What `make` makes; that it cannot is the user's to know.
template <typename Make>
auto made(Make const& make) {
  try {
    return make();
  } catch (std::runtime_error const& error) { throw UsageError(std::string("dry-run: ") + error.what()); }
}

process::DryWorldOrder world_of(DryRunOrder const& order) {
  process::DryWorldOrder world;
  world.card_name = order.card_name;
  world.card_profile = order.card_profile;
  world.budget = order.budget;
  world.seed = order.seed;
  world.devices = order.devices;
  return world;
}

/// One run of the program, from its start to its end.
class DryProcess {
 public:
  DryProcess(DryRunOrder const& order, Streams streams, SignalsPassedOn const& signals)
      : seed_(order.seed),
        world_(made([&] { return process::DryWorld(world_of(order)); })),
        questions_(made([] { return process::NamelessFile("maxbatch-questions", ""); })),
        page_file_(
            made([] { return process::NamelessFile("maxbatch-report", std::string(sizeof(dry::ReportPage), '\0')); })),
        page_(map_page(page_file_)) {
    auto environment = world_.environment();
    environment.insert(environment.end(), {{"MAXBATCH_DRY_POLICY", order.data_policy},
                                           {"MAXBATCH_DRY_RULES", order.data_rules},
                                           {"MAXBATCH_DRY_REPORT_PAGE", page_file_.path()},
                                           {"MAXBATCH_CONVOLUTION_QUESTIONS", questions_.path()},
                                           {"MAXBATCH_CONVOLUTION_TABLE", order.convolutions}});
    child_ = made([&] {
      return process::start_process(order.program, process::environment_with(environment), [&] {
        signals.undo_in_child();
        if (streams == Streams::nowhere) { point_streams_nowhere(); }
      });
    });
    replace_child(0, child_);
  }
  /// Only where another one could not be started: nothing is left running.
  ~DryProcess() {
    if (child_ > 0) {
      kill(child_, SIGKILL);
      wait();
    }
  }
  DryProcess(DryProcess const&) = delete;
  DryProcess& operator=(DryProcess const&) = delete;

  DryRunOutcome wait() {
    int status = 0;
    rusage usage{};
    while (wait4(child_, &status, 0, &usage) < 0 && errno == EINTR) {}
    replace_child(child_, 0);
    child_ = 0;
    DryRunOutcome outcome;
    outcome.seed = seed_;
    outcome.exit_code = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
    outcome.page = page_;
    outcome.questions = questions_asked();
    outcome.resident = Bytes{std::int64_t{usage.ru_maxrss} << 10};
    return outcome;
  }

 private:
  [[nodiscard]] std::vector<std::string> questions_asked() const {
    std::ifstream file(questions_.path());
    std::set<std::string> questions;
    for (std::string line; std::getline(file, line);) { questions.insert(line); }
    return {questions.begin(), questions.end()};
  }

  std::int64_t seed_;
  process::DryWorld world_;
  process::NamelessFile questions_;
  process::NamelessFile page_file_;
  std::shared_ptr<dry::ReportPage> page_;
  pid_t child_ = 0;
};

/// What Linux would give to new processes without swapping.
Bytes available_memory() {
  std::ifstream file("/proc/meminfo");
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string name;
    std::int64_t kib = 0;
    if (words >> name >> kib && name == "MemAvailable:") { return Bytes{kib << 10}; }
  }
  return Bytes{std::numeric_limits<std::int64_t>::max()};
}

std::size_t how_many_at_once(Bytes resident) {
  auto const processors = std::max<std::size_t>(1, std::thread::hardware_concurrency());
  auto const fit = static_cast<std::size_t>(
      std::max<std::int64_t>(1, available_memory().count / std::max<std::int64_t>(1, resident.count)));
  return std::min({processors, fit, kMostAtOnce});
}

}  // namespace

std::vector<DryRunOutcome> run_dry_seeds(DryRunOrder const& order, std::int64_t count) {
  check_program_file(order.program.front());
  SignalsPassedOn const signals;
  std::vector<DryRunOutcome> outcomes;
  outcomes.push_back(DryProcess(order, Streams::ours, signals).wait());
  auto const at_once = how_many_at_once(outcomes.front().resident);
  std::deque<std::unique_ptr<DryProcess>> running;  // in the seeds' order, and so are their ends waited for
  for (std::int64_t i = 1; i < count || !running.empty();) {
    if (i < count && running.size() < at_once) {
      auto of_seed = order;
      of_seed.seed += i++;
      running.push_back(std::make_unique<DryProcess>(of_seed, Streams::nowhere, signals));
    } else {
      outcomes.push_back(running.front()->wait());
      running.pop_front();
    }
  }
  return outcomes;
}

DryRunOutcome run_dry(DryRunOrder const& order) { return run_dry_seeds(order, 1).front(); }

}  // namespace maxbatch::cli
