#pragma once

#include "dry_cuda/report/report_page.hpp"
#include "process/child_process.hpp"
#include <maxbatch/bytes.hpp>
#include <maxbatch/search/trial_outcome.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace maxbatch::cli {

/// What a program did on its card, read from the page that it shares with us, while it runs or afterwards.
struct ProgramProgress {
  bool came_to_card = false;  ///< some process asked CUDA's runtime for something
  bool is_watched = false;    ///< LibTorch's allocator told what it did
  dry::StepMark mark = dry::StepMark::none;
  std::int64_t steps = 0;  ///< of the process that has done the fewest
  bool has_settled = false;
  std::int64_t out_of_memory = 0;       ///< requests that LibTorch's allocator gave up
  std::int64_t out_of_memory_last = 0;  ///< those of them after the last complete step
  std::int64_t driver_refusals = 0;     ///< of a dry card
  std::int64_t retries = 0;
  MemoryPeaks peaks;  ///< of the device and process that took most
  std::vector<PhasePeaks> phases;
  std::optional<FailedRequest> failed_request;
  std::string device_name;
  Bytes device_total;
  Bytes context;  ///< what a dry driver took; zero on a real card
};

/// `budget`: what LibTorch's allocator was held to.
ProgramProgress progress_of(dry::ReportPage const& page, std::optional<Bytes> budget);

/// How a trial of a program came to its end.
struct ProgramEnd {
  enum class Kind { by_itself, settled, timed_out };
  Kind kind = Kind::by_itself;
  process::ProcessEnd process;  ///< where it ended by itself
  double seconds = 0;
  std::string last_words;  ///< what it printed last
  std::string command;     ///< its first word
  std::int64_t wanted_steps = 0;
};

/// Decided from the evidence of the allocator, the program's end, and its text, in that order. A request that was refused is a
/// failure only where the program did not go on after it.
TrialOutcome judge_program(ProgramProgress const& progress, ProgramEnd const& end);

}  // namespace maxbatch::cli
