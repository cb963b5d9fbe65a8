#pragma once

#include "memory_account.hpp"

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

namespace maxbatch::detail {

/// Which memory is charged to which account, and which account a thread's next allocation is charged to.
/// Knows no LibTorch, so that ThreadSanitizer can run its tests.
///
/// Note [Whom an allocation is charged to]
/// 1. A thread that opened a trial, or said `belong_to`, belongs to that account from then on: it is charged while a
///    trial of the account is open, and nobody is otherwise.
/// 2. Any other thread (a worker of LibTorch's pools) is charged to the open trial, if it is the only one.
/// 3. With several open trials it is charged to none, and each of them is told.
/// LibTorch offers no honest way to do better in case 3: at::parallel_for keeps no thread-local state, and what is
/// carried along to at::launch and to autograd's threads (ThreadLocalDebugInfo, RecordFunction callbacks) belongs to
/// profilers or runs at every operator. It matters little: backward of CPU tensors runs on the thread that called it
/// (all but deeply nested ones), and kernels allocate before they go parallel.
///
/// Threads: all members, from any thread.
class MemoryLedger {
 public:
  /// As many as c10::DeviceIndex has non-negative values.
  static constexpr int kAccounts = 128;

  MemoryLedger();
  ~MemoryLedger();
  MemoryLedger(MemoryLedger const&) = delete;
  MemoryLedger& operator=(MemoryLedger const&) = delete;

  /// The process's own. Never destroyed: tensors with static lifetime are freed after our statics would be.
  static MemoryLedger& of_process();

  MemoryAccount& account(int index);

  /// Throws: std::logic_error if the account, or the calling thread, has an open window.
  WindowId open_window(MemoryAccount& account, MemoryAccount::Terms const& terms);
  std::optional<WindowTally> close_window(MemoryAccount& account, WindowId window) noexcept;
  /// The calling thread's allocations concern `account` and no other. Ignored while it has a trial open elsewhere.
  void belong_to(MemoryAccount& account) noexcept;

  /// Whether allocations need to be looked at. May be stale on a thread that was not told of a change.
  bool is_armed() const noexcept { return open_windows_.load(std::memory_order_relaxed) != 0; }
  /// Whether frees need to be looked at. Never false on a thread that frees charged memory: it got the pointer from
  /// somebody who had seen the charge.
  bool has_charges() const noexcept { return charges_.load(std::memory_order_relaxed) != 0; }

  /// See Note [Whom an allocation is charged to]. Null: nobody.
  MemoryAccount* payer(std::size_t requested) noexcept;

  /// Commits `reservation` as the charge of the memory at `key`. Call when the memory is there.
  /// Throws: std::bad_alloc, with nothing changed.
  void charge(void const* key, MemoryAccount& account, Reservation const& reservation);
  /// Ends the charge of `key`, if there is one. Call while the memory is still there, or another thread may get the same
  /// address and be mixed up with it.
  void release(void const* key) noexcept;

 private:
  struct Charge {
    MemoryAccount* account = nullptr;
    Reservation reservation;
  };
  struct alignas(64) Shard {
    std::mutex mutex;
    std::unordered_map<void const*, Charge> charges;
  };

  static constexpr std::size_t kShards = 64;

  Shard& shard_of(void const* key) noexcept;

  std::uint64_t const id_;  // tells threads that belong to an account of another ledger (tests make several)
  std::atomic<int> open_windows_{0};
  std::atomic<std::int64_t> charges_{0};
  std::atomic<MemoryAccount*> only_open_{nullptr};
  std::mutex accounts_mutex_;  // guards the next two
  std::array<std::unique_ptr<MemoryAccount>, kAccounts> accounts_;
  std::vector<MemoryAccount*> open_accounts_;
  std::array<Shard, kShards> shards_;
};

}  // namespace maxbatch::detail
