#include "dry_run_process.hpp"

#include "usage_error.hpp"

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <new>
#include <utility>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

extern char** environ;

namespace maxbatch::cli {
namespace {

constexpr char const* kLibrary = "libmaxbatch_dry_cuda.so";

/// Beside the program, as it is built or installed; or where the environment says.
std::filesystem::path find_library() {
  if (char const* const said = std::getenv("MAXBATCH_DRY_CUDA_LIBRARY")) {
    if (std::filesystem::exists(said)) { return std::filesystem::absolute(said); }
    throw UsageError(std::string("MAXBATCH_DRY_CUDA_LIBRARY is ") + said + ", which is not there");
  }
  auto const folder = std::filesystem::read_symlink("/proc/self/exe").parent_path();
  for (auto const* const place : {".", "../dry_cuda", "../lib", "../lib64", "../lib/x86_64-linux-gnu"}) {
    auto const library = folder / place / kLibrary;
    if (std::filesystem::exists(library)) { return std::filesystem::canonical(library); }
  }
  throw UsageError(std::string("dry-run needs ") + kLibrary +
                   ", which is not beside this program: it was built without it");
}

/// A file that has no name in any folder and ends with this process. Others open it by `path`.
class NamelessFile {
 public:
  NamelessFile(char const* name, std::size_t bytes) : descriptor_(memfd_create(name, MFD_CLOEXEC)) {
    if (descriptor_ < 0 || ftruncate(descriptor_, static_cast<off_t>(bytes)) != 0) {
      throw UsageError(std::string("dry-run: no memory for its report (") + std::strerror(errno) + ")");
    }
  }
  ~NamelessFile() { close(descriptor_); }
  NamelessFile(NamelessFile const&) = delete;
  NamelessFile& operator=(NamelessFile const&) = delete;

  [[nodiscard]] int descriptor() const { return descriptor_; }
  [[nodiscard]] std::string path() const {
    return "/proc/" + std::to_string(getpid()) + "/fd/" + std::to_string(descriptor_);
  }

 private:
  int descriptor_;
};

std::shared_ptr<dry::ReportPage> map_page(NamelessFile const& file) {
  auto* const memory = mmap(nullptr, sizeof(dry::ReportPage), PROT_READ | PROT_WRITE, MAP_SHARED, file.descriptor(), 0);
  if (memory == MAP_FAILED) { throw UsageError("dry-run: no memory for its report"); }
  return {new (memory) dry::ReportPage, [](dry::ReportPage* page) { munmap(page, sizeof(dry::ReportPage)); }};
}

/// The environment of this process with some of it replaced.
std::vector<std::string> environment_with(std::vector<std::pair<std::string, std::string>> const& changes) {
  std::vector<std::string> environment;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    std::string const text = *entry;
    auto const name = text.substr(0, text.find('='));
    auto replaced = false;
    for (auto const& change : changes) { replaced = replaced || change.first == name; }
    if (!replaced) { environment.push_back(text); }
  }
  for (auto const& [name, value] : changes) {
    if (!value.empty()) { environment.push_back(name + "=" + value); }
  }
  return environment;
}

std::vector<char*> pointers_to(std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  for (auto& text : texts) { pointers.push_back(text.data()); }
  pointers.push_back(nullptr);
  return pointers;
}

volatile std::sig_atomic_t child_process = 0;

void pass_on(int signal) {
  if (child_process > 0) { kill(static_cast<pid_t>(child_process), signal); }
}

/// While one lives, signals that would end this process go to the child, whose end is then ours.
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
    child_process = 0;
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

/// Starts it and waits. The pipe closes when exec succeeds, and otherwise says why it did not.
int run_child(std::vector<std::string> program, std::vector<std::string> environment) {
  auto const arguments = pointers_to(program);
  auto const variables = pointers_to(environment);
  std::array<int, 2> pipe_ends{};
  if (pipe2(pipe_ends.data(), O_CLOEXEC) != 0) { throw UsageError("dry-run: no more files can be opened"); }
  SignalsPassedOn const signals;
  auto const launcher = getpid();
  auto const child = fork();
  if (child == 0) {
    signals.undo_in_child();
    prctl(PR_SET_PDEATHSIG, SIGKILL);  // nothing is left running, whatever happens to the launcher
    if (getppid() == launcher) { execvpe(arguments[0], arguments.data(), variables.data()); }
    auto const error = errno;
    [[maybe_unused]] auto const told = write(pipe_ends[1], &error, sizeof(error));
    _exit(127);
  }
  child_process = child;
  close(pipe_ends[1]);
  int error = 0;
  auto const got = child < 0 ? ssize_t{0} : read(pipe_ends[0], &error, sizeof(error));
  close(pipe_ends[0]);
  int status = 0;
  while (child > 0 && waitpid(child, &status, 0) < 0 && errno == EINTR) {}
  if (child < 0 || got > 0) {
    throw UsageError("dry-run: " + program.front() + " cannot be started (" +
                     std::strerror(child < 0 ? EAGAIN : error) + ")");
  }
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

}  // namespace

DryRunOutcome run_dry(DryRunOrder const& order) {
  auto preload = find_library().string();
  if (char const* const others = std::getenv("LD_PRELOAD")) { preload += std::string(":") + others; }

  NamelessFile const profile("maxbatch-card", 0);
  if (write(profile.descriptor(), order.card_profile.data(), order.card_profile.size()) !=
      static_cast<ssize_t>(order.card_profile.size())) {
    throw UsageError("dry-run: no memory for the card's profile");
  }
  NamelessFile const page_file("maxbatch-report", sizeof(dry::ReportPage));
  auto const page = map_page(page_file);

  DryRunOutcome outcome;
  outcome.page = page;
  outcome.exit_code = run_child(
      order.program, environment_with({{"LD_PRELOAD", preload},
                                       {"MAXBATCH_CARD", order.card_name},
                                       {"MAXBATCH_CARD_PROFILE", profile.path()},
                                       {"MAXBATCH_DRY_BUDGET", order.budget ? std::to_string(order.budget->count) : ""},
                                       {"MAXBATCH_DRY_SEED", std::to_string(order.seed)},
                                       {"MAXBATCH_DRY_DEVICES", std::to_string(order.devices)},
                                       {"MAXBATCH_DRY_REPORT_PAGE", page_file.path()}}));
  return outcome;
}

}  // namespace maxbatch::cli
