#pragma once

#include <functional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <sys/types.h>

namespace maxbatch::process {

/// The program is not there, may not be run, or the machine has no room for another process.
class ProcessNotStarted : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

using EnvironmentChanges = std::vector<std::pair<std::string, std::string>>;

/// The environment of this process with some of it replaced; an empty value takes the variable away.
std::vector<std::string> environment_with(EnvironmentChanges const& changes);

/// What exec takes: the texts and a null. They outlive it, unchanged.
std::vector<char*> pointers_to(std::vector<std::string>& texts);

/// Starts a program, looked up in PATH, in a process that dies with the thread that starts it. `set_up` runs there before the program
/// does, between fork and exec: nothing in it may allocate or lock.
/// Throws: ProcessNotStarted, "NAME cannot be started: why".
pid_t start_process(std::vector<std::string> command, std::vector<std::string> environment,
                    std::function<void()> const& set_up);

}  // namespace maxbatch::process
