#pragma once

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
  std::int32_t calls = 0;
  std::int32_t calls_left_out = 0;  ///< names for which there was no room
  std::array<CallRecord, kCalls> call;
};

struct ReportPage {
  static constexpr int kProcesses = 16;
  static constexpr std::uint64_t kMagic = 0x3179726478616d6d;  // changes with the layout

  std::uint64_t magic = kMagic;
  std::atomic<std::int32_t> processes = 0;  ///< that used a dry card; may exceed kProcesses
  std::array<ProcessRecord, kProcesses> process;
};

/// The record of this process. Claimed in the launcher's page at first use; without a launcher, private to the process.
/// Writers hold the lock of what they write about (a card's, the notes').
ProcessRecord& process_record();

}  // namespace maxbatch::dry
