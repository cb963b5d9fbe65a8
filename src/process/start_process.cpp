#include "start_process.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

namespace maxbatch::process {
namespace {

ProcessNotStarted not_started(std::string const& program, int error) {
  return ProcessNotStarted{program + " cannot be started: " + std::strerror(error)};
}

}  // namespace

std::vector<char*> pointers_to(std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  pointers.reserve(texts.size() + 1);
  for (auto& text : texts) { pointers.push_back(text.data()); }
  pointers.push_back(nullptr);
  return pointers;
}

std::vector<std::string> environment_with(EnvironmentChanges const& changes) {
  std::vector<std::string> environment;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    std::string const text = *entry;
    auto const name = text.substr(0, text.find('='));
    auto const replaced =
        std::any_of(changes.begin(), changes.end(), [&](auto const& change) { return change.first == name; });
    if (!replaced) { environment.push_back(text); }
  }
  for (auto const& [name, value] : changes) {
    if (!value.empty()) { environment.push_back(name + "=" + value); }
  }
  return environment;
}

pid_t start_process(std::vector<std::string> command, std::vector<std::string> environment,
                    std::function<void()> const& set_up) {
  auto const arguments = pointers_to(command);
  auto const variables = pointers_to(environment);
  std::array<int, 2> pipe_ends{};  // closes when exec succeeds, and otherwise says why it did not
  if (pipe2(pipe_ends.data(), O_CLOEXEC) != 0) { throw not_started(command.front(), errno); }
  auto const parent = getpid();
  auto const child = fork();
  if (child == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);  // nothing is left running, whatever happens to the parent
    set_up();
    errno = ESRCH;
    if (getppid() == parent) { execvpe(arguments[0], arguments.data(), variables.data()); }
    auto const error = errno;
    [[maybe_unused]] auto const told = write(pipe_ends[1], &error, sizeof(error));
    _exit(127);
  }
  int error = child < 0 ? errno : 0;
  close(pipe_ends[1]);
  if (child > 0) {
    while (read(pipe_ends[0], &error, sizeof(error)) < 0 && errno == EINTR) {}
  }
  close(pipe_ends[0]);
  if (error == 0) { return child; }
  if (child > 0) {
    while (waitpid(child, nullptr, 0) < 0 && errno == EINTR) {}
  }
  throw not_started(command.front(), error);
}

}  // namespace maxbatch::process
