#include "stop_signal.hpp"

#include <cerrno>

#include <unistd.h>

namespace maxbatch::cli {
namespace {

volatile std::sig_atomic_t stop_was_given = 0;
volatile std::sig_atomic_t is_terminal = 0;

// Only what POSIX calls async-signal-safe: a flag and write().
extern "C" void remember_stop(int /*signal*/) {
  constexpr char kNote[] = "\nmaxbatch: stopping after this trial; Ctrl-C again ends at once\n";
  auto const error_before = errno;
  stop_was_given = 1;
  // On a terminal the cursor stands behind the live line.
  auto const skipped = is_terminal != 0 ? 0U : 1U;
  [[maybe_unused]] auto const written = ::write(STDERR_FILENO, kNote + skipped, sizeof(kNote) - 1 - skipped);
  errno = error_before;
}

}  // namespace

StopSignal::StopSignal() {
  stop_was_given = 0;
  is_terminal = isatty(STDERR_FILENO);
  struct sigaction action {};
  action.sa_handler = remember_stop;
  sigemptyset(&action.sa_mask);
  // RESETHAND: the second one is not ours. RESTART: a trial's own system calls are not disturbed.
  action.sa_flags = static_cast<int>(SA_RESETHAND | SA_RESTART);
  sigaction(SIGINT, &action, &before_);
}

StopSignal::~StopSignal() { sigaction(SIGINT, &before_, nullptr); }

bool StopSignal::was_given() { return stop_was_given != 0; }

}  // namespace maxbatch::cli
