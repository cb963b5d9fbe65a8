// Keeps the allocator's part of a dry run's report: peaks, retries, failed requests, and how much of the allocated peak is
// scratch memory of which source. Sees every block that LibTorch's caching allocator hands out. Where the launcher asked for it
// (MAXBATCH_WATCH_STEPS, MAXBATCH_ALLOCATOR_BUDGET, MAXBATCH_RECORD_EVENTS), it also looks for the program's steps, holds the
// allocator to a budget and records its events.
#include "dry_cuda/report/allocator_watch.hpp"

#include "event_recorder.hpp"
#include "step_watch.hpp"

#include <ATen/cuda/CUDAContextLight.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAFunctions.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <mutex>
#include <string>
#include <unordered_map>

namespace maxbatch::dry {
namespace {

namespace allocator = c10::cuda::CUDACachingAllocator;
using Stats = c10::CachingDeviceAllocator::DeviceStats;
constexpr auto kAll = static_cast<std::size_t>(c10::CachingAllocator::StatType::AGGREGATE);

/// As the allocator rounds it.
std::int64_t block_bytes(std::int64_t bytes) { return (bytes + 511) / 512 * 512; }

std::int64_t number_of(char const* variable) {
  char const* const text = std::getenv(variable);
  return text == nullptr ? 0 : std::strtoll(text, nullptr, 10);
}

void raise(std::int64_t& peak, std::int64_t value) { peak = std::max(peak, value); }

void raise(PeakRecord& peak, PeakRecord const& value) {
  raise(peak.requested_bytes, value.requested_bytes);
  raise(peak.allocated_bytes, value.allocated_bytes);
  raise(peak.active_bytes, value.active_bytes);
  raise(peak.reserved_bytes, value.reserved_bytes);
}

/// How much of a counter has been taken off since it was asked last.
class FreedSince {
 public:
  std::int64_t operator()(c10::CachingAllocator::Stat const& stat) {
    auto const now = stat.freed - freed_;
    freed_ = stat.freed;
    return now;
  }

 private:
  std::int64_t freed_ = 0;
};

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
  void event(allocator::TraceEntry const& entry, Stats const& stats, WatchedPhase phase, ExpectedScratch* expected) {
    std::lock_guard<std::mutex> const lock(mutex_);
    look_back(stats);
    phase_ = phase;
    auto const address = static_cast<std::uintptr_t>(entry.addr_);
    switch (entry.action_) {
      case allocator::TraceEntry::FREE_REQUESTED: scratch_.erase(address); break;
      case allocator::TraceEntry::ALLOC:
        scratch_.erase(address);
        if (expected != nullptr) { recognise(*expected, static_cast<std::int64_t>(entry.size_), address); }
        break;
      case allocator::TraceEntry::OOM:
        record_->failed_request_bytes = static_cast<std::int64_t>(entry.size_);
        record_->failed_reserved_bytes = now_.reserved_bytes;
        record_->failed_phase = phase;
        break;
      default: break;
    }
  }

  /// What the step took that ends now. `stats` null: as far as events have told.
  StepFigures end_step(Stats const* stats) {
    std::lock_guard<std::mutex> const lock(mutex_);
    if (stats != nullptr) { look_back(*stats); }
    StepFigures figures;
    figures.peak_allocated_bytes = step_peak_;
    figures.reserved_bytes = now_.reserved_bytes;
    figures.retries = record_->retries - retries_before_step_;
    retries_before_step_ = record_->retries;
    step_peak_ = now_.allocated_bytes;
    return figures;
  }

  bool is_in_use() {
    std::lock_guard<std::mutex> const lock(mutex_);
    return record_ != nullptr && record_->peak_reserved_bytes > 0;
  }

  void out_of_memory(std::int64_t requested, std::int64_t free, Stats const& stats) {
    std::lock_guard<std::mutex> const lock(mutex_);
    record_->out_of_memory = stats.num_ooms;
    record_->last_out_of_memory = {requested, stats.allocated_bytes.at(kAll).current, free};
  }

 private:
  /// At the state that the event before left, which that one's phase reached.
  void look_back(Stats const& stats) {
    now_ = {stats.requested_bytes.at(kAll).current, stats.allocated_bytes.at(kAll).current,
            stats.active_bytes.at(kAll).current, stats.reserved_bytes.at(kAll).current};
    PeakRecord const then = {now_.requested_bytes + requested_freed_(stats.requested_bytes.at(kAll)),
                             now_.allocated_bytes + allocated_freed_(stats.allocated_bytes.at(kAll)),
                             now_.active_bytes + active_freed_(stats.active_bytes.at(kAll)),
                             now_.reserved_bytes + reserved_freed_(stats.reserved_bytes.at(kAll))};
    raise(record_->phase.at(static_cast<std::size_t>(phase_)), then);
    raise(step_peak_, then.allocated_bytes);
    look(then.allocated_bytes, stats);
  }

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
    record.peak_active_bytes = std::max(record.peak_active_bytes, stats.active_bytes.at(kAll).peak);
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
  WatchedPhase phase_ = WatchedPhase::setup;
  PeakRecord now_;
  FreedSince requested_freed_;
  FreedSince allocated_freed_;
  FreedSince active_freed_;
  FreedSince reserved_freed_;
  std::int64_t step_peak_ = 0;
  std::int64_t retries_before_step_ = 0;
};

struct Watch {
  AllocatorWatchBoard* board = nullptr;
  std::array<DeviceWatch, ProcessRecord::kDevices> device;
  EventRecorder recorder;
  bool watches_steps = false;
};

Watch& watch() {
  static auto* const the_watch = new Watch;  // trackers cannot be detached: the allocator calls until the process ends
  return *the_watch;
}

bool is_ours(std::int64_t device) { return device >= 0 && device < ProcessRecord::kDevices; }

void on_event(allocator::TraceEntry const& entry) {
  if (!is_ours(entry.device_) || entry.action_ == allocator::TraceEntry::SNAPSHOT) { return; }
  auto& the_watch = watch();
  // Before the statistics are looked at and the event is recorded: it may end a step with the event before.
  auto const phase = the_watch.watches_steps ? step_watch().phase_of_this_thread() : WatchedPhase::setup;
  the_watch.recorder.event(entry);
  // Taken again by the thread that holds it: the allocator's lock is recursive.
  auto const stats = allocator::getDeviceStats(static_cast<c10::DeviceIndex>(entry.device_));
  auto const expected_of_this_thread = the_watch.board->expected_of_this_thread;
  the_watch.device.at(static_cast<std::size_t>(entry.device_))
      .event(entry, stats, phase, expected_of_this_thread == nullptr ? nullptr : expected_of_this_thread());
}

/// Of all segments and blocks, one number.
std::uint64_t layout_now() {
  std::uint64_t fingerprint = 14695981039346656037U;  // FNV-1a, a number at a time
  auto const mix = [&fingerprint](std::uint64_t value) { fingerprint = (fingerprint ^ value) * 1099511628211U; };
  for (auto const& segment : allocator::snapshot({0, 0}, /*include_traces=*/false).segments) {
    mix(segment.address);
    mix(segment.total_size);
    for (auto const& block : segment.blocks) {
      mix(block.size);
      mix(block.allocated ? 1 : block.active ? 2 : 3);
    }
  }
  return fingerprint;
}

/// Note [Steps and locks]
/// The end of a backward pass's step is noticed in a tracker, under the lock of one device: the locks of others are not for the
/// taking there, so the last known figures must do, and no layout is looked at.
StepFigures figures_of_step(StepMark mark) {
  static std::uint64_t steps_without_layout = 0;
  auto const is_free = mark == StepMark::optimizer;
  StepFigures all;
  std::int64_t out_of_memory = 0;
  std::int64_t retries = 0;
  auto& the_watch = watch();
  for (std::size_t i = 0; i < the_watch.device.size(); ++i) {
    auto& device = the_watch.device.at(i);
    if (!device.is_in_use()) { continue; }
    StepFigures figures;
    if (is_free) {
      auto const stats = allocator::getDeviceStats(static_cast<c10::DeviceIndex>(i));
      figures = device.end_step(&stats);
    } else {
      figures = device.end_step(nullptr);
    }
    all.peak_allocated_bytes += figures.peak_allocated_bytes;
    all.reserved_bytes += figures.reserved_bytes;
    all.retries += figures.retries;
    out_of_memory += the_watch.board->record.at(i)->out_of_memory;
    retries += the_watch.board->record.at(i)->retries;
  }
  if (all.retries > 0) { all.layout = is_free ? layout_now() : ++steps_without_layout; }
  the_watch.recorder.step_ended(mark);
  if (is_free) { the_watch.recorder.note_usable_memory(); }
  the_watch.board->process->steps.out_of_memory_before = out_of_memory;
  the_watch.board->process->steps.retries_before = retries;
  return all;
}

/// As MemoryFractionGuard does it: what the allocator reserves holds to the byte. Of the current device alone, since LibTorch
/// makes the one that it is asked about the current one; the launcher shows the program a single one.
void hold_to(std::int64_t budget_bytes) {
  auto const device = c10::cuda::current_device();
  auto const total = static_cast<double>(at::cuda::getDeviceProperties(device)->totalGlobalMem);
  auto const wanted = static_cast<double>(budget_bytes);
  if (wanted < total) { allocator::setMemoryFraction((wanted + 0.5) / total, device); }
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

void describe_devices(AllocatorWatchBoard& board) {
  auto const devices = std::min<int>(at::cuda::device_count(), ProcessRecord::kDevices);
  for (int i = 0; i < devices; ++i) {
    auto const& properties = *at::cuda::getDeviceProperties(static_cast<c10::DeviceIndex>(i));
    board.record.at(static_cast<std::size_t>(i))->total_bytes = static_cast<std::int64_t>(properties.totalGlobalMem);
  }
  auto& process = *board.process;
  process.devices = devices;
  if (process.card.front() != '\0' || devices == 0) { return; }
  std::string const name = at::cuda::getDeviceProperties(0)->name;
  name.copy(process.card.data(), process.card.size() - 1);
}

}  // namespace
}  // namespace maxbatch::dry

extern "C" __attribute__((visibility("default"))) bool maxbatch_start_allocator_watch(
    maxbatch::dry::AllocatorWatchBoard* board) {
  using namespace maxbatch::dry;  // NOLINT(google-build-using-namespace): the entry point lives outside
  auto* const current = allocator::get();
  // The native one; the others have neither trackers nor these statistics.
  if (current == nullptr || current->name() != "native" || !current->initialized()) { return false; }
  auto& the_watch = watch();
  the_watch.board = board;
  for (std::size_t i = 0; i < the_watch.device.size(); ++i) { the_watch.device.at(i).begin(board->record.at(i)); }
  board->scratch_is_at = announce;
  describe_devices(*board);
  the_watch.recorder.begin();
  if (auto const steps = number_of("MAXBATCH_WATCH_STEPS"); steps > 0) {
    the_watch.watches_steps = true;
    step_watch().begin(&board->process->steps, steps, figures_of_step);
  }
  if (auto const budget = number_of("MAXBATCH_ALLOCATOR_BUDGET"); budget > 0) { hold_to(budget); }
  current->attachAllocatorTraceTracker(on_event);
  current->attachOutOfMemoryObserver(on_out_of_memory);
  return true;
}
