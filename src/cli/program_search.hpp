#pragma once

#include "device_selection.hpp"
#include "varied_command.hpp"
#include <maxbatch/search/search_observer.hpp>
#include <maxbatch/training/finder_options.hpp>
#include <maxbatch/training/finder_result.hpp>

#include <chrono>
#include <cstddef>
#include <functional>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>

namespace maxbatch::cli {

/// How somebody's program is searched.
struct ProgramSearchOptions {
  DeviceChoice device;          ///< a dry card, or one of this machine
  std::optional<Bytes> budget;  ///< what LibTorch's allocator may reserve; none: what the card gives
  FinderOptions finder;         ///< its order and what follows it mean nothing here
  std::chrono::duration<double> trial_timeout{600};
  bool to_its_end = false;                     ///< trials are not ended when their steps repeat themselves
  std::optional<std::size_t> jobs;             ///< trials at once on a dry card; none: as processors and memory allow
  std::function<void(std::string_view)> show;  ///< what each trial printed last; none: nobody asks
};

/// The program failed at the smallest size, and not for memory. The text has several lines: how, and what it printed last.
class ProgramFailed : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// The largest number with which the program runs, each trial a process of its own. The search is that of `maxbatch::search`; on
/// a dry card the trials that it will probably ask for next run beside the one that it waits for.
/// Nothing is left behind: no process, no file of ours, and no change in this process's environment.
/// Throws: ProgramFailed; UsageError for a program that cannot be started, or an option that cannot be met.
FinderResult search_program(VariedCommand const& command, ProgramSearchOptions const& options,
                            SearchObserver* observer);

}  // namespace maxbatch::cli
