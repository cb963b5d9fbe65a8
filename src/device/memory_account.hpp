#pragma once

#include "simulated_cache.hpp"
#include <maxbatch/bytes.hpp>
#include <maxbatch/device/trial_evidence.hpp>
#include <maxbatch/search/phase.hpp>
#include <maxbatch/search/trial_outcome.hpp>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <variant>
#include <vector>

namespace maxbatch::detail {

/// CUDA's caching allocator rounds every request up to this (kMinBlockSize), and so do we.
constexpr std::int64_t kRoundingBytes = 512;

/// Saturates at the largest multiple of kRoundingBytes.
std::int64_t rounded_bytes(std::size_t requested) noexcept;

/// Names one opening of a window; unique in the process, so that a late caller can be told from the current one.
using WindowId = std::uint64_t;
constexpr WindowId kNoWindow = 0;

/// Room in the budget that was granted and is not yet backed by memory.
struct Reservation {
  WindowId window = kNoWindow;
  std::int64_t requested = 0;
  std::int64_t rounded = 0;  ///< with a simulated cache: its block's size
  BlockId block;             ///< of the simulated cache, where there is one
};

/// A request that the budget has no room for, or that was refused on purpose.
struct Refusal {
  FailedRequest request;
  Bytes free;
  Bytes budget;
  Bytes allocated;  ///< live charges, rounded
  Bytes resident;
  std::int64_t injected_at = 0;  ///< the number of this allocation in its trial, if it failed on purpose
};

/// No window is open: the allocation is nobody's business.
struct NotCounted {};

using Admission = std::variant<NotCounted, Reservation, Refusal>;

/// What a window saw. Fixed in size, so that freezing it at the end of a trial cannot fail.
struct WindowTally {
  struct Peak {
    std::int64_t requested = 0;
    std::int64_t rounded = 0;
    std::int64_t reserved = 0;
  };
  Peak peak;
  std::array<Peak, kAllPhases.size()> phase_peaks;
  std::int64_t granted = 0;
  std::int64_t refused = 0;
  std::int64_t retries = 0;  ///< requests that a flush made room for
  std::optional<FailedRequest> failed_request;
  std::optional<Bytes> free_at_failure;
  std::int64_t unattributed_allocations = 0;
  std::int64_t unattributed_bytes = 0;

  TrialEvidence evidence() const;
};

/// The bytes of one device index: what is live, how much may be, and what the open window saw of it.
///
/// Exact under any number of threads. The check against the budget and the reservation are one step under a lock; what
/// is reserved never exceeds budget minus resident bytes. Memory counts as live, for peaks, from `commit` on: a request
/// that the budget allowed and the machine could not serve raises no peak.
/// With a simulated cache that one decides instead: the budget is what its segments may take, and what was freed stays
/// reserved until it is flushed.
/// Threads: all members, from any thread.
class MemoryAccount {
 public:
  struct Terms {
    Bytes budget;
    Bytes resident;                    ///< counted in peaks and against the budget
    std::int64_t fail_allocation = 0;  ///< the number, from 1, of the one allocation to refuse; 0: none
  };

  explicit MemoryAccount(int index) : index_(index) {}
  MemoryAccount(MemoryAccount const&) = delete;
  MemoryAccount& operator=(MemoryAccount const&) = delete;

  int index() const noexcept { return index_; }

  /// Null: rounded bytes are counted, and nothing is cached. Throws: std::logic_error while anything is live.
  void account_with(std::unique_ptr<SimulatedCache> cache);
  /// Of the simulated cache; else nothing happens.
  void flush() noexcept;
  /// Of the simulated cache's segments and blocks; 0 without one.
  std::uint64_t layout_fingerprint() const;

  /// Throws: std::logic_error if a window is open.
  WindowId open_window(Terms const& terms);
  /// Ends counting and budget, and returns what was seen. Nothing happens to a window that is not the open one.
  std::optional<WindowTally> close_window(WindowId window) noexcept;
  /// The open window's id, or kNoWindow.
  WindowId open_window_id() const noexcept { return open_id_.load(std::memory_order_acquire); }

  /// The phase before. Phase::other, and nothing else, once `window` is closed.
  Phase enter_phase(WindowId window, Phase phase) noexcept;
  /// None once the window is closed.
  std::optional<WindowTally> tally(WindowId window) const;

  /// Rounded bytes that were reserved under `window` and are not yet released, also after it was closed.
  Bytes live_of_window(WindowId window) const noexcept;
  /// The last call about a window: `live_of_window` ends.
  void forget_window(WindowId window) noexcept;

  Admission reserve(std::size_t requested) noexcept;
  void commit(Reservation const& reservation) noexcept;
  /// Gives room back that never became memory: the machine, not the budget, refused.
  void cancel(Reservation const& reservation) noexcept;
  void release(Reservation const& committed) noexcept;

  void count_unattributed(std::size_t requested) noexcept;

  /// Live charges of all windows, rounded.
  Bytes allocated() const noexcept;

 private:
  struct LiveOfWindow {
    WindowId window;
    std::int64_t rounded;
  };

  std::int64_t free_bytes() const noexcept;
  std::optional<Reservation> admit(std::size_t requested, WindowId window);
  void take_back(Reservation const& reservation) noexcept;
  FailedRequest refused_by_cache() const;
  Phase phase() const noexcept { return kAllPhases[phase_]; }
  void raise_peaks() noexcept;
  void add_to_window(WindowId window, std::int64_t rounded) noexcept;

  int const index_;
  mutable std::mutex mutex_;
  std::atomic<WindowId> open_id_{kNoWindow};  // written under the lock, read anywhere
  Terms terms_;
  std::size_t phase_ = 0;
  std::int64_t attempts_ = 0;  // of the open window
  std::int64_t reserved_ = 0;  // live and on its way
  std::int64_t live_requested_ = 0;
  std::int64_t live_rounded_ = 0;
  std::vector<LiveOfWindow> windows_;  // those somebody still asks about: one or two
  WindowTally tally_;
  std::unique_ptr<SimulatedCache> cache_;  // null: none
};

}  // namespace maxbatch::detail
