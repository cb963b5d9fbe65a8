#pragma once

#include <maxbatch/search/search_observer.hpp>

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <mutex>
#include <ostream>
#include <string>
#include <string_view>
#include <thread>

namespace maxbatch::cli {

/// Standard error as the program uses it: whole lines, and below them, on a terminal, one line that is rewritten in place.
/// Threads: all of it.
class StatusStream {
 public:
  enum class Kind { plain, terminal };
  StatusStream(std::ostream& stream, Kind kind) : stream_(stream), kind_(kind) {}
  ~StatusStream() { clear(); }
  StatusStream(StatusStream const&) = delete;
  StatusStream& operator=(StatusStream const&) = delete;

  /// A terminal that understands cursor movement, and the process's own standard error.
  static Kind kind_of_standard_error();

  bool is_terminal() const { return kind_ == Kind::terminal; }
  void write_line(std::string_view line);
  /// Cut to the terminal's width. On a plain stream: nothing.
  void show(std::string_view line);
  void clear();

 private:
  void paint();

  std::mutex mutex_;
  std::ostream& stream_;
  Kind kind_;
  std::string live_;
};

/// Tells of a search while it runs, and passes Ctrl-C on to it. On a terminal: one live line, with a clock that goes on
/// during a trial; else a line when a trial is over.
class ProgressReporter : public SearchObserver {
 public:
  /// `title` begins each line; empty: nothing does.
  ProgressReporter(StatusStream& stream, std::string title);
  ~ProgressReporter() override;
  ProgressReporter(ProgressReporter const&) = delete;
  ProgressReporter& operator=(ProgressReporter const&) = delete;

  void trial_started(std::int64_t batch_size, TrialPurpose purpose, SearchProgress const& progress) override;
  void trial_finished(TrialRecord const& record) override;
  bool stop_requested() override;

 private:
  using Clock = std::chrono::steady_clock;

  void tick();
  void show();

  StatusStream& stream_;
  std::string title_;
  Clock::time_point const start_ = Clock::now();
  std::int64_t trial_ = 0;

  std::mutex mutex_;
  std::condition_variable wake_;
  bool is_over_ = false;
  std::string current_;
  std::thread ticker_;
};

/// "fits 12, fails 16"; empty before anything is known.
std::string text_of_bracket(SearchProgress const& progress);

}  // namespace maxbatch::cli
