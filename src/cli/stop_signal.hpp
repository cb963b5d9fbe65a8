#pragma once

#include <csignal>

namespace maxbatch::cli {

/// While one lives, the first SIGINT only sets a flag (and says so on standard error); the second one does what it did
/// before.  Threads: one at a time in a process.
class StopSignal {
 public:
  StopSignal();
  ~StopSignal();
  StopSignal(StopSignal const&) = delete;
  StopSignal& operator=(StopSignal const&) = delete;

  static bool was_given();

 private:
  struct sigaction before_ {};
};

}  // namespace maxbatch::cli
