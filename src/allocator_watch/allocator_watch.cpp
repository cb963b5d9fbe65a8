// Keeps the allocator's part of a dry run's report: peaks, retries, failed requests, and how much of the allocated peak is
// scratch memory of which source. Sees every block that LibTorch's caching allocator hands out.
#include "dry_cuda/report/allocator_watch.hpp"

#include <c10/cuda/CUDACachingAllocator.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <unordered_map>

namespace maxbatch::dry {
namespace {

namespace allocator = c10::cuda::CUDACachingAllocator;
using Stats = c10::CachingDeviceAllocator::DeviceStats;
constexpr auto kAll = static_cast<std::size_t>(c10::CachingAllocator::StatType::AGGREGATE);

/// As the allocator rounds it.
std::int64_t block_bytes(std::int64_t bytes) { return (bytes + 511) / 512 * 512; }

/// One device's blocks of scratch memory, and its record. Everything that the tracker does happens under the allocator's
/// lock; scratch is announced without it, by threads that hold none, so the map has a lock of its own that nothing is taken
/// under.
class DeviceWatch {
 public:
  void begin(AllocatorRecord* record) {
    record_ = record;
    record_->watched = 1;
  }

  void scratch_is_at(ScratchAnswer const& answer, std::uintptr_t address) {
    std::lock_guard<std::mutex> const lock(mutex_);
    scratch_[address] = answer;
  }

  /// Note [When a block counts]
  /// A tracker hears of an allocation before the statistics count it, and of a free after they have dropped it. So the state
  /// that an event ended is the statistics of now, with what has been freed since the event before; and by then scratch memory
  /// has been announced, which happens between its allocation and its free.
  void event(allocator::TraceEntry const& entry, Stats const& stats, ExpectedScratch& expected) {
    auto const& allocated = stats.allocated_bytes.at(kAll);
    auto const freed_now = allocated.freed - freed_;
    freed_ = allocated.freed;
    std::lock_guard<std::mutex> const lock(mutex_);
    look(allocated.current + freed_now, stats);
    auto const address = static_cast<std::uintptr_t>(entry.addr_);
    if (entry.action_ == allocator::TraceEntry::FREE_REQUESTED) { scratch_.erase(address); }
    if (entry.action_ == allocator::TraceEntry::ALLOC) {
      scratch_.erase(address);
      recognise(expected, static_cast<std::int64_t>(entry.size_), address);
    }
  }

  void out_of_memory(std::int64_t requested, std::int64_t free, Stats const& stats) {
    std::lock_guard<std::mutex> const lock(mutex_);
    record_->out_of_memory = stats.num_ooms;
    record_->last_out_of_memory = {requested, stats.allocated_bytes.at(kAll).current, free};
  }

 private:
  void look(std::int64_t allocated, Stats const& stats) {
    std::array<std::int64_t, kMemorySources> by_source{};
    std::int64_t less = 0;
    std::int64_t more = 0;
    for (auto const& [address, answer] : scratch_) {
      by_source.at(static_cast<std::size_t>(answer.source)) += block_bytes(answer.bytes);
      less += block_bytes(answer.bytes) - block_bytes(answer.low_bytes);
      more += block_bytes(answer.high_bytes) - block_bytes(answer.bytes);
    }
    auto& record = *record_;
    if (allocated > record.peak_allocated_bytes) {
      record.peak_allocated_bytes = allocated;
      record.peak_source_bytes = by_source;
    }
    record.low_peak_allocated_bytes = std::max(record.low_peak_allocated_bytes, allocated - less);
    record.high_peak_allocated_bytes = std::max(record.high_peak_allocated_bytes, allocated + more);
    record.peak_requested_bytes = std::max(record.peak_requested_bytes, stats.requested_bytes.at(kAll).peak);
    record.peak_reserved_bytes = std::max(record.peak_reserved_bytes, stats.reserved_bytes.at(kAll).peak);
    record.retries = stats.num_alloc_retries;
    record.out_of_memory = std::max(record.out_of_memory, stats.num_ooms);
  }

  void recognise(ExpectedScratch& expected, std::int64_t bytes, std::uintptr_t address) {
    for (int i = 0; i < expected.count; ++i) {
      auto& answer = expected.answer.at(static_cast<std::size_t>(i));
      if (answer.bytes != bytes) { continue; }
      scratch_[address] = answer;
      answer = expected.answer.at(static_cast<std::size_t>(--expected.count));
      return;
    }
  }

  AllocatorRecord* record_ = nullptr;
  std::mutex mutex_;
  std::unordered_map<std::uintptr_t, ScratchAnswer> scratch_;
  std::int64_t freed_ = 0;
};

struct Watch {
  AllocatorWatchBoard* board = nullptr;
  std::array<DeviceWatch, ProcessRecord::kDevices> device;
};

Watch& watch() {
  static auto* const the_watch = new Watch;  // trackers cannot be detached: the allocator calls until the process ends
  return *the_watch;
}

bool is_ours(std::int64_t device) { return device >= 0 && device < ProcessRecord::kDevices; }

void on_event(allocator::TraceEntry const& entry) {
  if (!is_ours(entry.device_) || entry.action_ == allocator::TraceEntry::SNAPSHOT) { return; }
  // Taken again by the thread that holds it: the allocator's lock is recursive.
  auto const stats = allocator::getDeviceStats(static_cast<c10::DeviceIndex>(entry.device_));
  watch()
      .device.at(static_cast<std::size_t>(entry.device_))
      .event(entry, stats, *watch().board->expected_of_this_thread());
}

void on_out_of_memory(std::int64_t device, std::size_t requested, std::size_t, std::size_t free) {
  if (!is_ours(device)) { return; }
  auto const stats = allocator::getDeviceStats(static_cast<c10::DeviceIndex>(device));
  watch()
      .device.at(static_cast<std::size_t>(device))
      .out_of_memory(static_cast<std::int64_t>(requested), static_cast<std::int64_t>(free), stats);
}

void announce(int device, ScratchAnswer const& answer, void const* memory) {
  if (!is_ours(device)) { return; }
  watch().device.at(static_cast<std::size_t>(device)).scratch_is_at(answer, reinterpret_cast<std::uintptr_t>(memory));
}

}  // namespace
}  // namespace maxbatch::dry

extern "C" __attribute__((visibility("default"))) bool maxbatch_start_allocator_watch(
    maxbatch::dry::AllocatorWatchBoard* board) {
  using namespace maxbatch::dry;  // NOLINT(google-build-using-namespace): the entry point lives outside
  auto* const current = allocator::get();
  // The native one; the others have neither trackers nor these statistics.
  if (current == nullptr || current->name() != "native") { return false; }
  auto& the_watch = watch();
  the_watch.board = board;
  for (std::size_t i = 0; i < the_watch.device.size(); ++i) { the_watch.device.at(i).begin(board->record.at(i)); }
  board->scratch_is_at = announce;
  current->attachAllocatorTraceTracker(on_event);
  current->attachOutOfMemoryObserver(on_out_of_memory);
  return true;
}
