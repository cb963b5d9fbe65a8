#include "memory_account.hpp"

#include <algorithm>
#include <limits>
#include <stdexcept>
#include <string>

namespace maxbatch::detail {
namespace {

constexpr std::size_t index_of(Phase phase) { return static_cast<std::size_t>(phase); }

constexpr std::int64_t kLargestRounded = std::numeric_limits<std::int64_t>::max() / kRoundingBytes * kRoundingBytes;

std::int64_t clamped(std::size_t requested) noexcept {
  return static_cast<std::int64_t>(
      std::min(requested, static_cast<std::size_t>(std::numeric_limits<std::int64_t>::max())));
}

WindowId next_window_id() noexcept {
  static std::atomic<WindowId> last{kNoWindow};
  return last.fetch_add(1, std::memory_order_relaxed) + 1;
}

MemoryPeaks peaks_of(WindowTally::Peak const& peak) {
  auto const rounded = Bytes{peak.rounded};
  return {Bytes{peak.requested}, rounded, rounded, rounded};
}

}  // namespace

std::int64_t rounded_bytes(std::size_t requested) noexcept {
  if (requested >= static_cast<std::size_t>(kLargestRounded)) { return kLargestRounded; }
  auto const bytes = static_cast<std::int64_t>(requested);
  return (bytes + kRoundingBytes - 1) / kRoundingBytes * kRoundingBytes;
}

TrialEvidence WindowTally::evidence() const {
  TrialEvidence evidence;
  evidence.peaks = peaks_of(peak);
  for (auto const phase : kAllPhases) {
    auto const& of_phase = phase_peaks[index_of(phase)];
    if (of_phase.rounded > 0) { evidence.phases.push_back({phase, peaks_of(of_phase)}); }
  }
  evidence.allocation_count = granted;
  evidence.out_of_memory_events = refused;
  evidence.failed_request = failed_request;
  evidence.free_at_failure = free_at_failure;
  evidence.unattributed_allocations = unattributed_allocations;
  evidence.unattributed = Bytes{unattributed_bytes};
  return evidence;
}

WindowId MemoryAccount::open_window(Terms const& terms) {
  std::lock_guard<std::mutex> const lock(mutex_);
  if (open_window_id() != kNoWindow) {
    throw std::logic_error("A trial is already open on budgeted cpu device " + std::to_string(index_) +
                           ". One at a time: end it (destroy or disarm its TrialWindow) before opening the next.");
  }
  auto const id = next_window_id();
  windows_.push_back({id, 0});
  terms_ = terms;
  phase_ = index_of(Phase::other);
  attempts_ = 0;
  tally_ = WindowTally{};
  raise_peaks();  // what earlier windows left, and what was there before
  open_id_.store(id, std::memory_order_release);
  return id;
}

std::optional<WindowTally> MemoryAccount::close_window(WindowId window) noexcept {
  std::lock_guard<std::mutex> const lock(mutex_);
  if (window == kNoWindow || open_window_id() != window) { return std::nullopt; }
  open_id_.store(kNoWindow, std::memory_order_release);
  return tally_;
}

Phase MemoryAccount::enter_phase(WindowId window, Phase phase) noexcept {
  std::lock_guard<std::mutex> const lock(mutex_);
  if (open_window_id() != window) { return Phase::other; }
  auto const before = this->phase();
  phase_ = index_of(phase);
  raise_peaks();  // a phase holds what was live when it began
  return before;
}

std::optional<WindowTally> MemoryAccount::tally(WindowId window) const {
  std::lock_guard<std::mutex> const lock(mutex_);
  if (open_window_id() != window) { return std::nullopt; }
  return tally_;
}

Bytes MemoryAccount::live_of_window(WindowId window) const noexcept {
  std::lock_guard<std::mutex> const lock(mutex_);
  for (auto const& live : windows_) {
    if (live.window == window) { return Bytes{live.rounded}; }
  }
  return Bytes{0};
}

void MemoryAccount::forget_window(WindowId window) noexcept {
  std::lock_guard<std::mutex> const lock(mutex_);
  windows_.erase(
      std::remove_if(windows_.begin(), windows_.end(), [window](auto const& live) { return live.window == window; }),
      windows_.end());
}

Admission MemoryAccount::reserve(std::size_t requested) noexcept {
  auto const rounded = rounded_bytes(requested);
  std::lock_guard<std::mutex> const lock(mutex_);
  auto const window = open_window_id();
  if (window == kNoWindow) { return NotCounted{}; }
  ++attempts_;
  auto const free = free_bytes();
  bool const injected = attempts_ == terms_.fail_allocation;
  if (rounded <= free && !injected) {
    reserved_ += rounded;
    add_to_window(window, rounded);
    return Reservation{window, clamped(requested), rounded};
  }

  Refusal refusal;
  refusal.request.phase = phase();
  refusal.request.requested = Bytes{clamped(requested)};
  if (rounded > free) { refusal.request.short_by_at_least = Bytes{rounded - free}; }
  refusal.free = Bytes{free};
  refusal.budget = terms_.budget;
  refusal.allocated = Bytes{reserved_};
  refusal.resident = terms_.resident;
  refusal.injected_at = injected ? attempts_ : 0;
  ++tally_.refused;
  tally_.failed_request = refusal.request;
  tally_.free_at_failure = refusal.free;
  return refusal;
}

void MemoryAccount::commit(Reservation const& reservation) noexcept {
  std::lock_guard<std::mutex> const lock(mutex_);
  live_requested_ += reservation.requested;
  live_rounded_ += reservation.rounded;
  if (open_window_id() == kNoWindow) { return; }
  if (open_window_id() == reservation.window) { ++tally_.granted; }
  raise_peaks();
}

void MemoryAccount::cancel(Reservation const& reservation) noexcept {
  std::lock_guard<std::mutex> const lock(mutex_);
  auto const free_before = free_bytes();
  reserved_ -= reservation.rounded;
  add_to_window(reservation.window, -reservation.rounded);
  if (open_window_id() != reservation.window) { return; }
  ++tally_.refused;
  tally_.failed_request = FailedRequest{phase(), Bytes{reservation.requested}, std::nullopt, std::nullopt};
  tally_.free_at_failure = Bytes{free_before + reservation.rounded};
}

void MemoryAccount::release(Reservation const& committed) noexcept {
  std::lock_guard<std::mutex> const lock(mutex_);
  reserved_ -= committed.rounded;
  live_requested_ -= committed.requested;
  live_rounded_ -= committed.rounded;
  add_to_window(committed.window, -committed.rounded);
}

void MemoryAccount::count_unattributed(std::size_t requested) noexcept {
  std::lock_guard<std::mutex> const lock(mutex_);
  if (open_window_id() == kNoWindow) { return; }
  ++tally_.unattributed_allocations;
  auto const rounded = rounded_bytes(requested);
  tally_.unattributed_bytes =
      rounded > kLargestRounded - tally_.unattributed_bytes ? kLargestRounded : tally_.unattributed_bytes + rounded;
}

Bytes MemoryAccount::allocated() const noexcept {
  std::lock_guard<std::mutex> const lock(mutex_);
  return Bytes{live_rounded_};
}

std::int64_t MemoryAccount::free_bytes() const noexcept {
  // Compare before subtracting: resident bytes may exceed the budget.
  return headroom(headroom(terms_.budget, terms_.resident), Bytes{reserved_}).count;
}

void MemoryAccount::raise_peaks() noexcept {
  auto const requested = live_requested_ + terms_.resident.count;
  auto const rounded = live_rounded_ + terms_.resident.count;
  for (auto* peak : {&tally_.peak, &tally_.phase_peaks[phase_]}) {
    peak->requested = std::max(peak->requested, requested);
    peak->rounded = std::max(peak->rounded, rounded);
  }
}

void MemoryAccount::add_to_window(WindowId window, std::int64_t rounded) noexcept {
  for (auto& live : windows_) {
    if (live.window == window) { live.rounded += rounded; }
  }
}

}  // namespace maxbatch::detail
