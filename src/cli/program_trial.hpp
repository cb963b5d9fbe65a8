#pragma once

#include "process/child_process.hpp"
#include "process/dry_world.hpp"
#include "process/marked_processes.hpp"
#include "program_recording.hpp"
#include "program_verdict.hpp"
#include <maxbatch/search/trial_outcome.hpp>

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace maxbatch::cli {

/// Where and how the trials of a program run.
struct ProgramTrialOptions {
  std::optional<process::DryWorldOrder> dry_world;  ///< none: on a card of this machine
  std::string visible_device;   ///< of this machine: what CUDA_VISIBLE_DEVICES has to be; empty: as it is
  std::optional<Bytes> budget;  ///< what LibTorch's allocator may reserve; none: what the card gives
  std::int64_t steps = 3;
  bool to_its_end = false;  ///< not ended early when its steps repeat themselves
  std::chrono::duration<double> timeout{600};
  std::string temporary_folder;
};

/// A program that runs for one trial. It leads a process group, prints to nobody, and is ended with all that it started when its
/// steps have settled, when it takes too long, and by the destructor.
/// Threads: the thread that made it.
class ProgramTrial {
 public:
  /// `record`: what LibTorch's allocator does, event by event.
  /// Throws: process::ProcessNotStarted; process::NoDryWorld; std::runtime_error.
  ProgramTrial(std::vector<std::string> const& command, ProgramTrialOptions const& options, bool record = false);
  ~ProgramTrial();
  ProgramTrial(ProgramTrial const&) = delete;
  ProgramTrial& operator=(ProgramTrial const&) = delete;

  /// Looks at it for at most this long; true once it is over.
  bool is_over_within(std::chrono::duration<double> patience);

  /// Once it is over.
  TrialOutcome const& outcome() const { return *outcome_; }
  ProgramProgress progress() const;
  bool records() const { return events_.has_value(); }
  /// Where it records.
  ProgramRecording recording() const { return recording_of(events_->page(), progress().mark); }
  std::string const& last_words() const { return child_->last_words(); }
  /// What is special about it: another CUDA, another LibTorch.
  std::vector<std::string> remarks() const;

 private:
  void conclude(ProgramEnd::Kind kind, process::ProcessEnd end);

  ProgramTrialOptions options_;
  std::string command_;
  std::optional<process::DryWorld> world_;
  process::NamelessFile page_file_;
  std::shared_ptr<dry::ReportPage> page_;
  std::optional<EventFile> events_;
  process::ProcessMark mark_;
  std::chrono::steady_clock::time_point began_;
  std::unique_ptr<process::ChildProcess> child_;
  std::optional<TrialOutcome> outcome_;
};

}  // namespace maxbatch::cli
