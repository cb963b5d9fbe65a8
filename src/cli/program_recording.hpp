#pragma once

#include "dry_cuda/report/event_page.hpp"
#include "dry_cuda/report/report_page.hpp"
#include "process/dry_world.hpp"
#include <maxbatch/simulation/allocation_trace.hpp>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

namespace maxbatch::cli {

/// What the allocator of a program did, and where its steps ended.
struct ProgramRecording {
  AllocationTrace trace;
  std::int64_t steps = 0;       ///< whose ends are marked
  bool is_cut = false;          ///< there were more events than it has room for
  std::optional<Bytes> usable;  ///< what the device had for the allocator, when the last step ended
  int multiprocessors = 0;
  int threads_per_multiprocessor = 0;
  std::string problem;  ///< why it is none; empty: it is one
};

/// Reads what a process has written so far. `mark`: what its steps are told by in the end; ends that were seen by another one, at
/// the beginning, are left out.
ProgramRecording recording_of(dry::EventPage const& page, dry::StepMark mark);

/// The first `steps` steps of it and what came before them.
AllocationTrace first_steps_of(ProgramRecording const& recording, std::int64_t steps);

/// Memory that a trial's process records its allocator's events in.
class EventFile {
 public:
  /// Throws: std::runtime_error where the machine has no memory for it.
  EventFile();
  std::string path() const { return file_.path(); }
  dry::EventPage const& page() const { return *page_; }

 private:
  process::NamelessFile file_;
  std::shared_ptr<dry::EventPage> page_;
};

}  // namespace maxbatch::cli
