#include "marked_processes.hpp"

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include <dirent.h>
#include <sys/types.h>
#include <unistd.h>

namespace maxbatch::process {
namespace {

std::vector<pid_t> all_processes() {
  std::vector<pid_t> processes;
  auto* const folder = opendir("/proc");
  if (folder == nullptr) { return processes; }
  while (auto const* const entry = readdir(folder)) {
    auto const number = std::strtol(&entry->d_name[0], nullptr, 10);
    if (number > 0) { processes.push_back(static_cast<pid_t>(number)); }
  }
  closedir(folder);
  return processes;
}

/// The environment that a process was started with; empty for those of others, and for those that have ended.
std::string environment_of(pid_t process) {
  std::ifstream file("/proc/" + std::to_string(process) + "/environ", std::ios::binary);
  std::string text(1, '\0');
  text.append(std::istreambuf_iterator<char>(file), {});
  return text;
}

}  // namespace

ProcessMark::ProcessMark() {
  static std::atomic<int> next = 0;
  auto const now = std::chrono::system_clock::now().time_since_epoch().count();
  value_ = std::to_string(getpid()) + '-' + std::to_string(now) + '-' + std::to_string(next++);
}

void ProcessMark::kill_all() const {
  constexpr int kRounds = 20;  // each finds what the round before had just started
  auto const wanted = std::string(1, '\0') + kVariable + '=' + value_ + '\0';
  for (int round = 0; round < kRounds; ++round) {
    auto found = false;
    for (auto const process : all_processes()) {
      if (process == getpid() || environment_of(process).find(wanted) == std::string::npos) { continue; }
      found = kill(process, SIGKILL) == 0 || found;
    }
    if (!found) { return; }
  }
}

}  // namespace maxbatch::process
