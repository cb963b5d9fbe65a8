#pragma once

#include "site_record.hpp"

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace maxbatch::dry {

/// What a dry run saw, in memory that the launcher shares with every process it starts: a process that aborts, or is killed,
/// has still told everything up to then. Plain data, the same in the library and the launcher; both are of one build.

struct RefusedRequest {
  std::int64_t bytes = 0;
  std::int64_t program_bytes = 0;  ///< what the program held then
  std::int64_t free_bytes = 0;     ///< what it could still have had
};

struct DeviceRecord {
  std::int64_t total_bytes = 0;
  std::int64_t context_bytes = 0;  ///< what the driver itself took: context, local memory, library handles
  std::int64_t peak_context_bytes = 0;
  std::int64_t program_bytes = 0;  ///< cudaMalloc and cuMemCreate, in multiples of 2 MiB
  std::int64_t peak_program_bytes = 0;
  std::int64_t peak_device_bytes = 0;  ///< both together
  std::int64_t segments = 0;           ///< live allocations of the program
  std::int64_t peak_segments = 0;
  std::int64_t segments_bought = 0;
  std::int64_t refusals = 0;
  std::int64_t launches = 0;
  RefusedRequest first_refused;
  RefusedRequest last_refused;
};

/// What the size of a library's scratch memory rests on. Table: asked on a card; neighbours: the same convolution was, at other
/// batch sizes; planned: cuDNN's plan for a convolution that no table answered; graph: its plan for anything else, such as attention; rule and estimate: the formulas and
/// interpolations of libraries/README.md.
enum class MemorySource : std::int32_t { table, neighbours, planned, graph, rule, estimate };
constexpr std::size_t kMemorySources = 6;

/// Answers of one source: how many, and the largest of them.
struct SourceRecord {
  std::int64_t answers = 0;
  std::int64_t largest_bytes = 0;
};

/// The parts of a training step, as far as they can be told from outside: autograd's threads are the backward pass, LibTorch's
/// Python optimizers say when they step, and what comes before the first backward pass is the setup.
enum class WatchedPhase : std::int32_t { setup, forward, backward, optimizer };
constexpr std::size_t kWatchedPhases = 4;

struct PeakRecord {
  std::int64_t requested_bytes = 0;
  std::int64_t allocated_bytes = 0;
  std::int64_t active_bytes = 0;
  std::int64_t reserved_bytes = 0;
};

/// What LibTorch's caching allocator did on one device, kept by the allocator watch where that is loaded (allocator_watch/).
struct AllocatorRecord {
  std::int64_t watched = 0;  ///< 1: all below is known
  std::int64_t total_bytes = 0;
  std::int64_t peak_active_bytes = 0;
  std::array<PeakRecord, kWatchedPhases> phase{};
  std::int64_t failed_request_bytes = 0;   ///< what the program asked for when it last ran out of memory
  std::int64_t failed_reserved_bytes = 0;  ///< what the allocator held then
  WatchedPhase failed_phase = WatchedPhase::setup;
  std::int64_t peak_allocated_bytes = 0;
  std::int64_t peak_requested_bytes = 0;
  std::int64_t peak_reserved_bytes = 0;
  std::int64_t retries = 0;  ///< after each, the cache was given back and the request made once more
  std::int64_t out_of_memory = 0;
  RefusedRequest last_out_of_memory;  ///< bytes as the program asked; program_bytes: what was allocated
  /// Of the allocated peak: live scratch memory by MemorySource.
  std::array<std::int64_t, kMemorySources> peak_source_bytes{};
  /// Where the allocated peak lies when every uncertain workspace takes the least, or the most, that it may.
  std::int64_t low_peak_allocated_bytes = 0;
  std::int64_t high_peak_allocated_bytes = 0;
};

/// What tells one step of a training program from the next, the best that was seen.
enum class StepMark : std::int32_t { none, backward, optimizer };

/// The steps of a training program, recognised from outside (allocator_watch/step_recogniser.hpp).
struct StepsRecord {
  std::int64_t wanted = 0;  ///< as the launcher asked; 0: nobody looked for steps
  StepMark mark = StepMark::none;
  std::int64_t complete = 0;
  std::int64_t settled = 0;               ///< 1: at least `wanted` ran, and what they take repeats itself
  std::int64_t out_of_memory_before = 0;  ///< failed requests up to the end of the last complete step
  std::int64_t retries_before = 0;
};

enum class CallNote : std::int32_t { none, refused, defaulted, missing };

struct CallRecord {
  std::array<char, 84> name{};
  CallNote note = CallNote::none;
  std::int64_t count = 0;
};

struct ProcessRecord {
  static constexpr int kDevices = 8;
  static constexpr int kCalls = 256;

  std::int32_t process_id = 0;
  std::int32_t devices = 0;
  std::int64_t budget_bytes = -1;  ///< -1: what the card has
  std::int64_t seed = 0;
  std::array<char, 128> card{};     ///< as the card calls itself
  std::array<char, 256> command{};  ///< the first words of the command line
  std::array<DeviceRecord, kDevices> device;
  std::array<AllocatorRecord, kDevices> allocator;
  StepsRecord steps;
  std::array<SourceRecord, kMemorySources> source;  ///< by MemorySource
  std::int64_t questions = 0;                       ///< convolutions, each once, that no table answered
  std::int32_t calls = 0;
  std::int32_t calls_left_out = 0;  ///< names for which there was no room
  std::array<CallRecord, kCalls> call;
  SiteRecords data;  ///< what data-dependent operators were told
};

/// Something about a process that explains why it never came to a dry card, or came to it otherwise than was checked.
enum class Remark : std::int32_t {
  none,
  asked_for_driver,  ///< `what` opened the driver's library itself: the runtime is linked into it statically
  other_runtime,     ///< `what` is a CUDA runtime of another major version, which we do not stand in for
  other_libtorch,    ///< `what` is the version of the process's LibTorch, not the one that was compared with a card
};

struct RemarkRecord {
  std::atomic<Remark> remark = Remark::none;
  std::array<char, 200> what{};
};

struct ReportPage {
  static constexpr int kProcesses = 16;
  static constexpr int kRemarks = 16;
  static constexpr std::uint64_t kMagic = 0x3379726478616d6d;  // changes with the layout

  std::uint64_t magic = kMagic;
  std::atomic<std::int32_t> processes = 0;  ///< that used a dry card; may exceed kProcesses
  std::array<ProcessRecord, kProcesses> process;
  std::atomic<std::int32_t> remarks = 0;  ///< may exceed kRemarks
  std::array<RemarkRecord, kRemarks> remark;
};

/// The record of this process. Claimed in the launcher's page at first use; without a launcher, private to the process.
/// Writers hold the lock of what they write about (a card's, the notes').
ProcessRecord& process_record();

/// Adds a remark to the launcher's page, once; without a launcher nothing happens. Claims no record. Any thread.
void remark(Remark remark, char const* what);

}  // namespace maxbatch::dry
