#include "program_verdict.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <csignal>
#include <sstream>
#include <string_view>

namespace maxbatch::cli {
namespace {

using dry::WatchedPhase;

Phase phase_of(WatchedPhase phase) {
  switch (phase) {
    case WatchedPhase::setup: return Phase::setup;
    case WatchedPhase::forward: return Phase::forward;
    case WatchedPhase::backward: return Phase::backward;
    case WatchedPhase::optimizer: return Phase::optimizer;
  }
  return Phase::other;
}

MemoryPeaks peaks_of(dry::PeakRecord const& record) {
  return {Bytes{record.requested_bytes}, Bytes{record.allocated_bytes}, Bytes{record.active_bytes},
          Bytes{record.reserved_bytes}};
}

FailedRequest failed_request_of(dry::AllocatorRecord const& record, std::optional<Bytes> budget) {
  FailedRequest request;
  request.phase = phase_of(record.failed_phase);
  request.requested = Bytes{record.failed_request_bytes};
  auto free = Bytes{record.last_out_of_memory.free_bytes};
  if (budget) { free = std::min(free, headroom(*budget, Bytes{record.failed_reserved_bytes})); }
  if (record.last_out_of_memory.bytes > 0) {
    request.segment = Bytes{record.last_out_of_memory.bytes};
    auto const missing = headroom(*request.segment, free);
    if (missing.count > 0) { request.short_by_at_least = missing; }
  }
  return request;
}

void add_device(ProgramProgress& progress, dry::AllocatorRecord const& record, std::optional<Bytes> budget) {
  progress.is_watched = progress.is_watched || (record.watched != 0 && record.peak_reserved_bytes > 0);
  progress.retries += record.retries;
  if (record.out_of_memory > 0) { progress.failed_request = failed_request_of(record, budget); }
  if (Bytes{record.peak_reserved_bytes} <= progress.peaks.reserved) { return; }
  progress.peaks = {Bytes{record.peak_requested_bytes}, Bytes{record.peak_allocated_bytes},
                    Bytes{record.peak_active_bytes}, Bytes{record.peak_reserved_bytes}};
  progress.device_total = Bytes{record.total_bytes};
  progress.phases.clear();
  for (std::size_t i = 0; i < dry::kWatchedPhases; ++i) {
    auto const& phase = record.phase.at(i);
    if (phase.reserved_bytes > 0) {
      progress.phases.push_back({phase_of(static_cast<WatchedPhase>(i)), peaks_of(phase)});
    }
  }
}

constexpr std::array<std::string_view, 5> kDeviceMemoryTexts = {
    "out of memory", "OutOfMemoryError", "CUBLAS_STATUS_ALLOC_FAILED", "CUDNN_STATUS_ALLOC_FAILED",
    "cudaErrorMemoryAllocation"};
constexpr std::array<std::string_view, 5> kHostMemoryTexts = {
    "MemoryError", "DefaultCPUAllocator", "Cannot allocate memory", "std::bad_alloc", "can't allocate memory"};

template <std::size_t size>
bool says_one_of(std::string const& text, std::array<std::string_view, size> const& known) {
  return std::any_of(known.begin(), known.end(),
                     [&](std::string_view one) { return text.find(one) != std::string::npos; });
}

/// "ValueError: …": the last line that looks like how Python names an exception; empty: there is none.
std::string last_exception(std::string const& text) {
  std::istringstream lines(text);
  std::string found;
  for (std::string line; std::getline(lines, line);) {
    auto const colon = line.find(": ");
    auto const name = line.substr(0, colon);
    if (name.empty() || name.find_first_of(" \t") != std::string::npos) { continue; }
    auto const is_one = name.find("Error") != std::string::npos || name.find("Exception") != std::string::npos;
    if (is_one) { found = line; }
  }
  return found;
}

std::string shortened_end(std::string text, std::size_t length) {
  while (!text.empty() && (text.back() == '\n' || text.back() == ' ')) { text.pop_back(); }
  if (text.size() <= length) { return text; }
  auto const cut = text.find('\n', text.size() - length);
  return "..." + text.substr(cut == std::string::npos ? text.size() - length : cut);
}

std::string with_last_words(std::string text, std::string const& words) {
  constexpr std::size_t kLongest = 800;
  auto const last = shortened_end(words, kLongest);
  return last.empty() ? text + "; it printed nothing" : text + "; it last printed: " + last;
}

std::string steps_text(ProgramProgress const& progress) {
  return progress.steps == 1 ? "1 step" : std::to_string(progress.steps) + " steps";
}

TrialOutcome pass(ProgramProgress const& progress, ProgramEnd const& end) {
  TrialOutcome outcome;
  outcome.steps = std::max<std::int64_t>(1, progress.steps);
  if (progress.out_of_memory > 0 || progress.retries > 0) {
    outcome.verdict = Verdict::fits_under_pressure;
    outcome.reason = std::to_string(progress.retries) + " allocation retries, " +
                     std::to_string(progress.out_of_memory) + " requests refused after which the program went on";
  }
  if (end.kind == ProgramEnd::Kind::settled) { return outcome; }
  if (progress.mark == dry::StepMark::none) {
    outcome.reason +=
        (outcome.reason.empty() ? "" : "; ") + std::string("ran to its own end, in which no training step was seen");
  } else if (progress.steps < end.wanted_steps) {
    outcome.reason += (outcome.reason.empty() ? "" : "; ") + std::string("came to its own end after ") +
                      steps_text(progress) + ", and " + std::to_string(end.wanted_steps) + " were wanted";
  }
  return outcome;
}

TrialOutcome failure(Verdict verdict, ProgramProgress const& progress, std::string reason) {
  TrialOutcome outcome;
  outcome.verdict = verdict;
  outcome.steps = progress.steps;
  outcome.reason = std::move(reason);
  return outcome;
}

/// It ended with exit code 0.
TrialOutcome judge_success(ProgramProgress const& progress, ProgramEnd const& end) {
  if (!progress.came_to_card || !progress.is_watched) {
    return failure(Verdict::failed, progress,
                   with_last_words(end.command + (progress.came_to_card
                                                      ? " ended without allocating anything by LibTorch's allocator"
                                                      : " asked CUDA's runtime for nothing: it uses no GPU"),
                                   end.last_words));
  }
  auto const is_short = progress.mark == dry::StepMark::none || progress.steps < end.wanted_steps;
  if (progress.out_of_memory_last > 0 && is_short) {
    return failure(
        Verdict::swallowed_out_of_memory, progress,
        "the program ended with exit code 0, but ran out of memory and did not complete another step after that");
  }
  return pass(progress, end);
}

TrialOutcome judge_failure(ProgramProgress const& progress, ProgramEnd const& end) {
  auto const& text = end.last_words;
  auto const how = end.command + ' ' + end.process.describe() + " after " + steps_text(progress);
  auto const says_device = says_one_of(text, kDeviceMemoryTexts);
  auto const was_refused = progress.out_of_memory_last > 0 || (progress.driver_refusals > 0 && says_device);
  if (was_refused) {
    auto const other = last_exception(text);
    if (says_device || other.empty()) {
      return failure(Verdict::out_of_memory, progress,
                     "out of memory, as " + std::to_string(std::max<std::int64_t>(1, progress.out_of_memory_last)) +
                         " request(s) were refused in the step that did not end; " + how);
    }
    return failure(Verdict::likely_out_of_memory, progress,
                   "a request for memory was refused, and then " + with_last_words(how, other));
  }
  if (says_device) {
    return failure(Verdict::likely_out_of_memory, progress,
                   with_last_words(
                       "the text says that memory ran out, though LibTorch's allocator refused nothing; " + how, text));
  }
  if (says_one_of(text, kHostMemoryTexts)) {
    return failure(Verdict::out_of_host_memory, progress, with_last_words("out of host memory; " + how, text));
  }
  auto const is_killed = end.process.by_signal && end.process.code == SIGKILL;
  return failure(Verdict::failed, progress,
                 with_last_words(how + (is_killed ? ", as Linux does when the host's memory runs out" : ""), text));
}

}  // namespace

ProgramProgress progress_of(dry::ReportPage const& page, std::optional<Bytes> budget) {
  ProgramProgress progress;
  auto const processes = std::min<int>(page.processes.load(), dry::ReportPage::kProcesses);
  progress.came_to_card = processes > 0;
  auto all_settled = true;
  for (int i = 0; i < processes; ++i) {
    auto const& process = page.process.at(static_cast<std::size_t>(i));
    std::int64_t out_of_memory = 0;
    for (std::size_t device = 0; device < process.allocator.size(); ++device) {
      add_device(progress, process.allocator.at(device), budget);
      out_of_memory += process.allocator.at(device).out_of_memory;
      progress.driver_refusals += process.device.at(device).refusals;
      progress.context = std::max(progress.context, Bytes{process.device.at(device).peak_context_bytes});
    }
    progress.out_of_memory += out_of_memory;
    progress.out_of_memory_last += std::max<std::int64_t>(0, out_of_memory - process.steps.out_of_memory_before);
    if (progress.device_name.empty()) { progress.device_name = process.card.data(); }
    if (process.steps.mark == dry::StepMark::none) { continue; }
    progress.steps = progress.mark == dry::StepMark::none ? process.steps.complete
                                                          : std::min(progress.steps, process.steps.complete);
    progress.mark = std::max(progress.mark, process.steps.mark);
    all_settled = all_settled && process.steps.settled != 0;
  }
  progress.has_settled = progress.mark != dry::StepMark::none && all_settled;
  return progress;
}

TrialOutcome judge_program(ProgramProgress const& progress, ProgramEnd const& end) {
  TrialOutcome outcome;
  switch (end.kind) {
    case ProgramEnd::Kind::settled: outcome = pass(progress, end); break;
    case ProgramEnd::Kind::timed_out:
      outcome = failure(Verdict::timed_out, progress,
                        with_last_words("the trial took longer than the " + std::to_string(std::llround(end.seconds)) +
                                            " s that it was given; " + steps_text(progress) + " had ended" +
                                            (progress.out_of_memory_last > 0
                                                 ? ", and a request for memory had been refused after the last of them"
                                                 : ""),
                                        end.last_words));
      break;
    case ProgramEnd::Kind::by_itself:
      outcome =
          !end.process.by_signal && end.process.code == 0 ? judge_success(progress, end) : judge_failure(progress, end);
      break;
  }
  outcome.peaks = progress.peaks;
  outcome.phases = progress.phases;
  outcome.allocation_retries = std::max<std::int64_t>(0, progress.retries - progress.out_of_memory);
  if (is_memory_failure(outcome.verdict)) { outcome.failed_request = progress.failed_request; }
  return outcome;
}

}  // namespace maxbatch::cli
