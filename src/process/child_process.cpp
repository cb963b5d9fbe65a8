#include "child_process.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <utility>

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

namespace maxbatch::process {
namespace {

constexpr std::size_t kLastWords = 4096;
using Clock = std::chrono::steady_clock;

void close_if_open(int& descriptor) {
  if (descriptor >= 0) { close(descriptor); }
  descriptor = -1;
}

/// The first line of `unread`, taken out of it.
bool take_line(std::string& unread, std::string& line) {
  auto const end = unread.find('\n');
  if (end == std::string::npos) { return false; }
  line = unread.substr(0, end);
  unread.erase(0, end + 1);
  return true;
}

bool write_all(int descriptor, std::string_view bytes) {
  while (!bytes.empty()) {
    auto const written = ::send(descriptor, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (written < 0 && errno == EINTR) { continue; }
    if (written <= 0) { return false; }
    bytes.remove_prefix(static_cast<std::size_t>(written));
  }
  return true;
}

int milliseconds_until(std::optional<Clock::time_point> deadline) {
  if (!deadline) { return -1; }
  auto const left = std::chrono::duration_cast<std::chrono::milliseconds>(*deadline - Clock::now()).count();
  return static_cast<int>(std::clamp<std::int64_t>(left + 1, 0, 1 << 30));
}

struct Ends {
  std::array<int, 2> channel{-1, -1};
  std::array<int, 2> output{-1, -1};

  Ends() {
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, channel.data()) != 0 ||
        pipe2(output.data(), O_CLOEXEC) != 0) {
      auto const why = std::string(std::strerror(errno));
      close_all();
      throw ProcessNotStarted("no process can be started: " + why);
    }
  }
  ~Ends() { close_all(); }
  Ends(Ends const&) = delete;
  Ends& operator=(Ends const&) = delete;

  void close_all() {
    for (auto* const pair : {&channel, &output}) {
      for (auto& end : *pair) { close_if_open(end); }
    }
  }
};

/// In the child, between fork and exec: nothing that allocates or locks.
void set_up_child(Ends const& ends, sigset_t const& no_signals) {
  setpgid(0, 0);
  auto const nothing = open("/dev/null", O_RDONLY);
  dup2(nothing, STDIN_FILENO);
  dup2(ends.output[1], STDOUT_FILENO);
  dup2(ends.output[1], STDERR_FILENO);
  if (ends.channel[1] >= 0) { fcntl(ends.channel[1], F_SETFD, 0); }  // this end alone lives through exec
  std::signal(SIGINT, SIG_DFL);
  std::signal(SIGPIPE, SIG_DFL);
  sigprocmask(SIG_SETMASK, &no_signals, nullptr);
}

}  // namespace

std::string ProcessEnd::describe() const {
  if (!by_signal) { return "ended with exit code " + std::to_string(code); }
  auto const* const name = strsignal(code);
  return "was killed by signal " + std::to_string(code) + (name != nullptr ? " (" + std::string(name) + ")" : "");
}

ChildProcess::ChildProcess(std::vector<std::string> command, EnvironmentChanges const& environment, Talk talk) {
  Ends ends;
  if (talk == Talk::none) {
    for (auto& end : ends.channel) { close_if_open(end); }
  }
  auto changes = environment;
  for (auto const one : {Talk::trials, Talk::questions}) {
    changes.emplace_back(channel_variable(one), one == talk ? std::to_string(ends.channel[1]) : "");
  }
  sigset_t no_signals;
  sigemptyset(&no_signals);
  process_ = start_process(std::move(command), environment_with(changes), [&] { set_up_child(ends, no_signals); });
  setpgid(process_, process_);  // whoever of the two comes first
  std::swap(channel_, ends.channel[0]);
  std::swap(output_, ends.output[0]);
  fcntl(output_, F_SETFL, O_NONBLOCK);
}

ChildProcess::~ChildProcess() {
  kill();
  close_if_open(channel_);
  close_if_open(output_);
}

bool ChildProcess::send(std::string_view line) { return write_line(channel_, line); }

ChildProcess::Received ChildProcess::receive(std::string& line, Timeout timeout) {
  auto const deadline =
      timeout ? std::optional(Clock::now() + std::chrono::duration_cast<Clock::duration>(*timeout)) : std::nullopt;
  while (!take_line(unread_, line)) {
    std::array<pollfd, 2> waiting = {pollfd{channel_, POLLIN, 0}, pollfd{output_, POLLIN, 0}};
    auto const ready = poll(waiting.data(), waiting.size(), milliseconds_until(deadline));
    if (ready == 0) { return Received::timed_out; }
    if (ready < 0) { continue; }  // a signal
    if (waiting[1].revents != 0) { keep_what_it_prints(); }
    if (waiting[0].revents == 0) { continue; }
    std::array<char, 65536> bytes{};
    auto const count = read(channel_, bytes.data(), bytes.size());
    if (count < 0 && errno == EINTR) { continue; }
    if (count <= 0) {
      keep_what_it_prints();
      return Received::closed;
    }
    unread_.append(bytes.data(), static_cast<std::size_t>(count));
  }
  return Received::line;
}

void ChildProcess::keep_what_it_prints() {
  std::array<char, 4096> bytes{};
  ssize_t count = 0;
  while (output_ >= 0 && (count = read(output_, bytes.data(), bytes.size())) > 0) {
    last_words_.append(bytes.data(), static_cast<std::size_t>(count));
    if (last_words_.size() > kLastWords) { last_words_.erase(0, last_words_.size() - kLastWords); }
  }
  if (count == 0) { close_if_open(output_); }
}

std::optional<ProcessEnd> ChildProcess::end_without_waiting() {
  int status = 0;
  if (!end_ && waitpid(process_, &status, WNOHANG) == process_) {
    end_ = ProcessEnd{WIFSIGNALED(status), WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status)};
  }
  return end_;
}

ProcessEnd ChildProcess::wait() {
  int status = 0;
  while (!end_) {
    if (waitpid(process_, &status, 0) == process_) {
      end_ = ProcessEnd{WIFSIGNALED(status), WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status)};
    } else if (errno != EINTR) {
      end_ = ProcessEnd{};
    }
  }
  return *end_;
}

ProcessEnd ChildProcess::finish(std::chrono::duration<double> patience) {
  if (channel_ >= 0) { shutdown(channel_, SHUT_WR); }
  auto const deadline = Clock::now() + std::chrono::duration_cast<Clock::duration>(patience);
  while (!end_without_waiting() && Clock::now() < deadline) {
    keep_what_it_prints();
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  keep_what_it_prints();
  return kill();
}

std::optional<ProcessEnd> ChildProcess::end_within(std::chrono::duration<double> patience) {
  auto const deadline = Clock::now() + std::chrono::duration_cast<Clock::duration>(patience);
  while (!end_without_waiting() && Clock::now() < deadline) {
    pollfd waiting = {output_, POLLIN, 0};
    constexpr int kLongest = 5;  // its end is noticed no later, in milliseconds
    poll(&waiting, 1, std::min(kLongest, milliseconds_until(deadline)));
    if (waiting.revents != 0) { keep_what_it_prints(); }
  }
  keep_what_it_prints();
  return end_;
}

ProcessEnd ChildProcess::kill() {
  if (process_ > 0 && !is_group_killed_) { ::kill(-process_, SIGKILL); }  // also what it started and left behind
  is_group_killed_ = true;
  return wait();
}

char const* channel_variable(ChildProcess::Talk talk) {
  return talk == ChildProcess::Talk::questions ? "MAXBATCH_QUESTIONS_CHANNEL" : "MAXBATCH_CHILD_CHANNEL";
}

int take_channel(ChildProcess::Talk talk) {
  char const* const said = std::getenv(channel_variable(talk));
  if (said == nullptr) { return -1; }
  auto const channel = static_cast<int>(std::strtol(said, nullptr, 10));
  unsetenv(channel_variable(talk));
  fcntl(channel, F_SETFD, FD_CLOEXEC);
  return channel;
}

bool read_line(int channel, std::string& unread, std::string& line) {
  while (!take_line(unread, line)) {
    std::array<char, 65536> bytes{};
    auto const count = read(channel, bytes.data(), bytes.size());
    if (count < 0 && errno == EINTR) { continue; }
    if (count <= 0) { return false; }
    unread.append(bytes.data(), static_cast<std::size_t>(count));
  }
  return true;
}

bool write_line(int channel, std::string_view line) { return write_all(channel, std::string(line) + '\n'); }

}  // namespace maxbatch::process
