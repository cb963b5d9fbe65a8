#pragma once

#include "start_process.hpp"

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <sys/types.h>

namespace maxbatch::process {

/// How a process ended.
struct ProcessEnd {
  bool by_signal = false;
  int code = 0;  ///< the exit code, or the signal

  /// "ended with exit code 1", "was killed by signal 9 (Killed)"
  std::string describe() const;
};

/// A child process and a line of talk with it. What it prints goes nowhere, but its last lines are kept for messages. It
/// leads a process group of its own, so that a kill reaches whatever it started and a terminal's Ctrl-C does not, and it
/// dies with the thread that started it.
/// Threads: not thread-safe; the destructor runs where the constructor ran.
class ChildProcess {
 public:
  /// What is said over the channel, of which the child finds its end's number in a variable (`channel_variable`): trials of a
  /// search, or questions to cuDNN. None: the program knows nothing of us, and finds no variable.
  enum class Talk { trials, questions, none };

  /// `command` is looked up in PATH.  Throws: ProcessNotStarted.
  ChildProcess(std::vector<std::string> command, EnvironmentChanges const& environment, Talk talk = Talk::trials);
  /// Kills what is left.
  ~ChildProcess();
  ChildProcess(ChildProcess const&) = delete;
  ChildProcess& operator=(ChildProcess const&) = delete;

  enum class Received { line, closed, timed_out };
  using Timeout = std::optional<std::chrono::duration<double>>;

  /// False when nobody reads any more.
  bool send(std::string_view line);
  /// One line, without its end. None as timeout: waits for ever.
  Received receive(std::string& line, Timeout timeout = std::nullopt);

  /// Nothing more will be said to it: a child that reads then comes to its end. Kills it when it takes longer.
  ProcessEnd finish(std::chrono::duration<double> patience);
  ProcessEnd kill();
  /// Its end, if it comes within this; what it prints meanwhile is kept.
  std::optional<ProcessEnd> end_within(std::chrono::duration<double> patience);

  /// The last of what it printed, on either stream.
  std::string const& last_words() const { return last_words_; }

 private:
  void keep_what_it_prints();
  std::optional<ProcessEnd> end_without_waiting();
  ProcessEnd wait();

  pid_t process_ = -1;
  int channel_ = -1;
  int output_ = -1;
  std::string unread_;
  std::string last_words_;
  std::optional<ProcessEnd> end_;
  bool is_group_killed_ = false;  // later its number may be another's
};

/// `talk` is one.
char const* channel_variable(ChildProcess::Talk talk);
/// In a child: its end of the channel for this talk, taken out of the environment so that no process of its own finds it; -1
/// elsewhere.
int take_channel(ChildProcess::Talk talk);
/// Blocking. False at the end of the talk.
bool read_line(int channel, std::string& unread, std::string& line);
bool write_line(int channel, std::string_view line);

}  // namespace maxbatch::process
