#include "progress.hpp"

#include "stop_signal.hpp"

#include <array>
#include <cstdio>
#include <cstdlib>
#include <utility>

#include <sys/ioctl.h>
#include <unistd.h>

namespace maxbatch::cli {
namespace {

using namespace std::chrono_literals;

std::size_t terminal_width() {
  winsize size{};
  if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) { return size.ws_col; }
  return 80;
}

std::string seconds_text(double seconds, int decimals) {
  std::array<char, 64> text{};
  std::snprintf(text.data(), text.size(), "%.*f s", decimals, seconds);
  return text.data();
}

}  // namespace

StatusStream::Kind StatusStream::kind_of_standard_error() {
  if (isatty(STDERR_FILENO) == 0) { return Kind::plain; }
  char const* const terminal = std::getenv("TERM");
  auto const is_dumb =
      terminal == nullptr || std::string_view(terminal) == "dumb" || std::string_view(terminal).empty();
  return is_dumb ? Kind::plain : Kind::terminal;
}

void StatusStream::write_line(std::string_view line) {
  std::lock_guard<std::mutex> const lock(mutex_);
  if (!live_.empty()) { stream_ << "\r\x1b[K"; }
  stream_ << line << '\n';
  if (!live_.empty()) { paint(); }
  stream_.flush();
}

void StatusStream::show(std::string_view line) {
  if (!is_terminal()) { return; }
  std::lock_guard<std::mutex> const lock(mutex_);
  live_ = line;
  paint();
  stream_.flush();
}

void StatusStream::clear() {
  std::lock_guard<std::mutex> const lock(mutex_);
  if (live_.empty()) { return; }
  live_.clear();
  stream_ << "\r\x1b[K" << std::flush;
}

void StatusStream::paint() {
  // One column stays free: some terminals wrap when the last one is written. Asked anew each time: windows are resized.
  stream_ << '\r' << live_.substr(0, terminal_width() - 1) << "\x1b[K";
}

std::string text_of_bracket(SearchProgress const& progress) {
  std::string text;
  if (progress.largest_fitting) { text += "fits " + std::to_string(*progress.largest_fitting); }
  if (progress.smallest_failing) {
    text += (text.empty() ? "" : ", ") + std::string("fails ") + std::to_string(*progress.smallest_failing);
  }
  return text;
}

ProgressReporter::ProgressReporter(StatusStream& stream, std::string title)
    : stream_(stream), title_(std::move(title)) {
  if (!title_.empty()) { title_ += ": "; }
  if (stream_.is_terminal()) {
    ticker_ = std::thread([this] { tick(); });
  }
}

ProgressReporter::~ProgressReporter() {
  {
    std::lock_guard<std::mutex> const lock(mutex_);
    is_over_ = true;
  }
  wake_.notify_all();
  if (ticker_.joinable()) { ticker_.join(); }
  stream_.clear();
}

void ProgressReporter::trial_started(std::int64_t batch_size, TrialPurpose purpose, SearchProgress const& progress) {
  trial_ = progress.trials_so_far + 1;
  if (!stream_.is_terminal()) { return; }
  std::lock_guard<std::mutex> const lock(mutex_);
  auto const bracket = text_of_bracket(progress);
  current_ = "batch " + std::to_string(batch_size) + " (" + std::string(to_string(purpose)) + ")" +
             (bracket.empty() ? "" : "; so far " + bracket);
  show();
}

void ProgressReporter::trial_finished(TrialRecord const& record) {
  if (stream_.is_terminal()) { return; }
  auto const& outcome = record.outcome;
  auto line = title_ + "trial " + std::to_string(trial_) + ": batch " + std::to_string(record.batch_size) + " (" +
              std::string(to_string(record.purpose)) + ") " + std::string(to_string(outcome.verdict));
  if (!is_fit(outcome.verdict) && outcome.failed_request) {
    line += " in " + std::string(to_string(outcome.failed_request->phase)) + ", asking for " +
            to_string(outcome.failed_request->requested);
  } else if (is_fit(outcome.verdict) && outcome.peaks.reserved > Bytes{0}) {
    line += ", peak " + to_string(outcome.peaks.reserved);
  }
  stream_.write_line(line + ", " + seconds_text(record.seconds, 2));
}

bool ProgressReporter::stop_requested() { return StopSignal::was_given(); }

void ProgressReporter::tick() {
  std::unique_lock<std::mutex> lock(mutex_);
  while (!is_over_) {
    wake_.wait_for(lock, 200ms);
    if (!is_over_ && !current_.empty()) { show(); }
  }
}

void ProgressReporter::show() {
  std::chrono::duration<double> const elapsed = Clock::now() - start_;
  stream_.show(title_ + "trial " + std::to_string(trial_) + ", " + seconds_text(elapsed.count(), 1) + ": " + current_);
}

}  // namespace maxbatch::cli
