#pragma once

#include "memory_ledger.hpp"

#include <c10/core/Allocator.h>

#include <cstddef>

namespace maxbatch::detail {

/// LibTorch's CPU allocator with a budget in front of it.
///
/// Two kinds, by what stands under it, because c10::Allocator promises two kinds of memory:
/// - *Raw* upstream (`raw_deleter()` not null: LibTorch's own): data and context are one pointer. All memory carries our
///   deleter, charged or not, since `raw_deleter` must always return the deleter that `allocate` attaches.
/// - *Opaque* upstream: the context is the upstream's business. Charged memory is wrapped together with its upstream
///   pointer; memory that is not charged passes through as it is, with its own deleter, and `raw_deleter` stays null.
///
/// Order of bookkeeping: reserve, allocate upstream, charge; at the end release, then free upstream.
///
/// Installed once, never removed and never destroyed (c10::SetAllocator wants static lifetime).
class BudgetedCpuAllocator final : public c10::Allocator {
 public:
  /// The installed one; installs it the first time.
  /// Throws: std::logic_error if another copy of maxbatch was first, or if LibTorch would not take it.
  /// Threads: any, but none may allocate meanwhile (c10::SetAllocator is not thread-safe).
  static BudgetedCpuAllocator& installed();

  explicit BudgetedCpuAllocator(c10::Allocator& upstream, MemoryLedger& ledger);

  /// Throws: c10::OutOfMemoryError where the budget refuses; whatever the upstream throws.
  c10::DataPtr allocate(std::size_t size_bytes) override;
  c10::DeleterFnPtr raw_deleter() const override;
  bool is_simple_data_ptr(c10::DataPtr const& data_ptr) const override;
  void copy_data(void* destination, void const* source, std::size_t size_bytes) const override;

  MemoryLedger& ledger() const noexcept { return ledger_; }

  /// Whether what LibTorch allocates for the CPU comes through here: not if somebody set an allocator after us.
  bool is_reached() const;

 private:
  c10::DataPtr allocate_upstream(std::size_t size_bytes);
  c10::DataPtr charged(c10::DataPtr memory, MemoryAccount& account, Reservation const& reservation);

  c10::Allocator& upstream_;
  c10::DeleterFnPtr const upstream_deleter_;  // null: opaque upstream
  MemoryLedger& ledger_;
};

}  // namespace maxbatch::detail
