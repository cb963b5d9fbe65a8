#include "memory_ledger.hpp"

#include <algorithm>
#include <stdexcept>
#include <string>

namespace maxbatch::detail {
namespace {

/// Plain values, so that it needs no destructor: memory is freed also while a thread ends.
struct ThreadMembership {
  std::uint64_t ledger = 0;
  MemoryAccount* home = nullptr;
  WindowId opened = kNoWindow;
};

thread_local ThreadMembership this_thread;

bool has_open_trial(ThreadMembership const& thread) noexcept {
  return thread.opened != kNoWindow && thread.home->open_window_id() == thread.opened;
}

std::uint64_t next_ledger_id() noexcept {
  static std::atomic<std::uint64_t> last{0};
  return last.fetch_add(1, std::memory_order_relaxed) + 1;
}

}  // namespace

MemoryLedger::MemoryLedger() : id_(next_ledger_id()) {}
MemoryLedger::~MemoryLedger() = default;

MemoryLedger& MemoryLedger::of_process() {
  static auto& ledger = *new MemoryLedger;
  return ledger;
}

MemoryAccount& MemoryLedger::account(int index) {
  std::lock_guard<std::mutex> const lock(accounts_mutex_);
  auto& account = accounts_.at(static_cast<std::size_t>(index));
  if (!account) { account = std::make_unique<MemoryAccount>(index); }
  return *account;
}

WindowId MemoryLedger::open_window(MemoryAccount& account, MemoryAccount::Terms const& terms) {
  if (this_thread.ledger == id_ && this_thread.home != &account && has_open_trial(this_thread)) {
    throw std::logic_error("This thread has a trial open on budgeted cpu device " +
                           std::to_string(this_thread.home->index()) + " already, so none can be opened on device " +
                           std::to_string(account.index()) + ": its allocations can be charged to one device only.");
  }
  std::lock_guard<std::mutex> const lock(accounts_mutex_);
  open_accounts_.reserve(open_accounts_.size() + 1);
  auto const window = account.open_window(terms);
  open_accounts_.push_back(&account);
  only_open_.store(open_accounts_.size() == 1 ? &account : nullptr, std::memory_order_release);
  open_windows_.store(static_cast<int>(open_accounts_.size()), std::memory_order_release);
  this_thread = {id_, &account, window};
  return window;
}

std::optional<WindowTally> MemoryLedger::close_window(MemoryAccount& account, WindowId window) noexcept {
  std::lock_guard<std::mutex> const lock(accounts_mutex_);
  auto tally = account.close_window(window);
  if (!tally) { return tally; }
  open_accounts_.erase(std::remove(open_accounts_.begin(), open_accounts_.end(), &account), open_accounts_.end());
  only_open_.store(open_accounts_.size() == 1 ? open_accounts_.front() : nullptr, std::memory_order_release);
  open_windows_.store(static_cast<int>(open_accounts_.size()), std::memory_order_release);
  return tally;
}

void MemoryLedger::belong_to(MemoryAccount& account) noexcept {
  if (this_thread.ledger == id_ && (this_thread.home == &account || has_open_trial(this_thread))) { return; }
  this_thread = {id_, &account, kNoWindow};
}

MemoryAccount* MemoryLedger::payer(std::size_t requested) noexcept {
  if (this_thread.ledger == id_) {
    return this_thread.home->open_window_id() != kNoWindow ? this_thread.home : nullptr;
  }
  if (auto* const only = only_open_.load(std::memory_order_acquire)) { return only; }
  std::lock_guard<std::mutex> const lock(accounts_mutex_);
  if (open_accounts_.size() == 1) { return open_accounts_.front(); }
  for (auto* const account : open_accounts_) { account->count_unattributed(requested); }
  return nullptr;
}

void MemoryLedger::charge(void const* key, MemoryAccount& account, Reservation const& reservation) {
  Charge stale;  // memory freed behind our back, whose address has come round
  {
    auto& shard = shard_of(key);
    std::lock_guard<std::mutex> const lock(shard.mutex);
    auto const [entry, is_new] = shard.charges.try_emplace(key);
    if (is_new) {
      charges_.fetch_add(1, std::memory_order_relaxed);
    } else {
      stale = entry->second;
    }
    entry->second = Charge{&account, reservation};
  }
  if (stale.account != nullptr) { stale.account->release(stale.reservation); }
  account.commit(reservation);
}

void MemoryLedger::release(void const* key) noexcept {
  Charge charge;
  {
    auto& shard = shard_of(key);
    std::lock_guard<std::mutex> const lock(shard.mutex);
    auto const entry = shard.charges.find(key);
    if (entry == shard.charges.end()) { return; }
    charge = entry->second;
    shard.charges.erase(entry);
    charges_.fetch_sub(1, std::memory_order_relaxed);
  }
  charge.account->release(charge.reservation);
}

MemoryLedger::Shard& MemoryLedger::shard_of(void const* key) noexcept {
  // Tensors are 64-byte aligned and large ones sit at the same offset of their pages: mix the upper bits in.
  auto const bits = static_cast<std::uint64_t>(reinterpret_cast<std::uintptr_t>(key));
  return shards_[static_cast<std::size_t>((bits * 0x9E3779B97F4A7C15U) >> 58U)];
}

}  // namespace maxbatch::detail
