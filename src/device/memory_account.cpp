#include "memory_account.hpp"

#include <algorithm>
#include <limits>
#include <stdexcept>
#include <string>
#include <utility>

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
  return {Bytes{peak.requested}, rounded, rounded, Bytes{peak.reserved}};
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
  evidence.allocation_retries = retries;
  evidence.failed_request = failed_request;
  evidence.free_at_failure = free_at_failure;
  evidence.unattributed_allocations = unattributed_allocations;
  evidence.unattributed = Bytes{unattributed_bytes};
  return evidence;
}

void MemoryAccount::account_with(std::unique_ptr<SimulatedCache> cache) {
  std::lock_guard<std::mutex> const lock(mutex_);
  if (open_window_id() != kNoWindow || reserved_ != 0) {
    throw std::logic_error("Budgeted cpu device " + std::to_string(index_) + " still has " +
                           to_string(Bytes{reserved_}) +
                           " allocated: choose how it accounts before its first trial, or when all of that is freed.");
  }
  cache_ = std::move(cache);
}

void MemoryAccount::flush() noexcept {
  std::lock_guard<std::mutex> const lock(mutex_);
  if (cache_) { cache_->flush(); }
}

std::uint64_t MemoryAccount::layout_fingerprint() const {
  std::lock_guard<std::mutex> const lock(mutex_);
  return cache_ ? cache_->layout_fingerprint() : 0;
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
  if (cache_) { cache_->set_limit(headroom(terms_.budget, terms_.resident)); }
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
  std::lock_guard<std::mutex> const lock(mutex_);
  auto const window = open_window_id();
  if (window == kNoWindow) { return NotCounted{}; }
  ++attempts_;
  bool const injected = attempts_ == terms_.fail_allocation;
  if (!injected) {
    if (auto const reservation = admit(requested, window)) {
      reserved_ += reservation->rounded;
      add_to_window(window, reservation->rounded);
      return *reservation;
    }
  }

  auto const free = free_bytes();
  Refusal refusal;
  if (cache_ && !injected) { refusal.request = refused_by_cache(); }
  refusal.request.phase = phase();
  refusal.request.requested = Bytes{clamped(requested)};
  auto const rounded = rounded_bytes(requested);
  if (!cache_ && rounded > free) { refusal.request.short_by_at_least = Bytes{rounded - free}; }
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

/// None: the budget has no room for it.
std::optional<Reservation> MemoryAccount::admit(std::size_t requested, WindowId window) {
  if (!cache_) {
    auto const rounded = rounded_bytes(requested);
    if (rounded > free_bytes()) { return std::nullopt; }
    return Reservation{window, clamped(requested), rounded, {}};
  }
  auto const flushes = cache_->retries();
  auto const block = cache_->allocate(clamped(requested));
  if (!block) { return std::nullopt; }
  tally_.retries += cache_->retries() > flushes ? 1 : 0;
  return Reservation{window, clamped(requested), cache_->size_of(block).count, block};
}

FailedRequest MemoryAccount::refused_by_cache() const {
  auto const& refused = cache_->refusal();
  FailedRequest request;
  request.segment = refused.segment_size;
  request.short_by_at_least =
      headroom(Bytes{refused.reserved.count + refused.segment_size.count}, headroom(terms_.budget, terms_.resident));
  return request;
}

void MemoryAccount::take_back(Reservation const& reservation) noexcept {
  reserved_ -= reservation.rounded;
  add_to_window(reservation.window, -reservation.rounded);
  if (cache_ && reservation.block) { cache_->free(reservation.block); }
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
  take_back(reservation);
  if (open_window_id() != reservation.window) { return; }
  ++tally_.refused;
  tally_.failed_request = FailedRequest{phase(), Bytes{reservation.requested}, std::nullopt, std::nullopt};
  tally_.free_at_failure = Bytes{free_before + reservation.rounded};
}

void MemoryAccount::release(Reservation const& committed) noexcept {
  std::lock_guard<std::mutex> const lock(mutex_);
  live_requested_ -= committed.requested;
  live_rounded_ -= committed.rounded;
  take_back(committed);
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
  return headroom(headroom(terms_.budget, terms_.resident), cache_ ? cache_->reserved() : Bytes{reserved_}).count;
}

void MemoryAccount::raise_peaks() noexcept {
  auto const requested = live_requested_ + terms_.resident.count;
  auto const rounded = live_rounded_ + terms_.resident.count;
  auto const reserved = cache_ ? cache_->reserved().count + terms_.resident.count : rounded;
  for (auto* peak : {&tally_.peak, &tally_.phase_peaks[phase_]}) {
    peak->requested = std::max(peak->requested, requested);
    peak->rounded = std::max(peak->rounded, rounded);
    peak->reserved = std::max(peak->reserved, reserved);
  }
}

void MemoryAccount::add_to_window(WindowId window, std::int64_t rounded) noexcept {
  for (auto& live : windows_) {
    if (live.window == window) { live.rounded += rounded; }
  }
}

}  // namespace maxbatch::detail
