#pragma once

#include <maxbatch/device/memory_device.hpp>
#include <maxbatch/simulation/allocator_settings.hpp>

#include <cstdint>
#include <memory>
#include <optional>

namespace maxbatch {

/// The CPU's allocator under a byte budget: real kernels, real numbers, a memory boundary.
///
/// The first device made installs an allocator around LibTorch's CPU allocator. LibTorch cannot take one back, so it
/// stays for the life of the process: it hands every call through untouched unless a trial is open. While one is, each
/// allocation is charged, rounded up to 512 bytes as the CUDA caching allocator rounds, under the phase of that moment.
/// A request that does not fit throws `c10::OutOfMemoryError` ("CPU out of memory (maxbatch budget) …"); a request that
/// fits and that the machine cannot serve throws what LibTorch throws, and counts as refused too.
/// Charges end when the memory is freed, by whichever thread, also after the trial.
///
/// Whom an allocation is charged to: a thread that opened a trial (or warmed a device up) is charged to that device, and
/// to none while that device has no trial open. Any other thread, such as a worker of LibTorch's pools, is charged to the
/// open trial if it is the only one; with several open, to none, and each is told
/// (`TrialEvidence::unattributed_allocations`).
///
/// What it does not see: memory that libraries take behind LibTorch's back (oneDNN and MKL scratch; measured in
/// docs/cpu_budget.md), and storages that were allocated before: say those with `set_resident`.
///
/// Budgets and settings change between trials only: `set_budget`, `set_resident` and `fail_allocation` throw
/// std::logic_error while a trial is open on the account, and so does a second `open_trial` on the account or the thread.
/// Threads: make the first device before threads allocate, since LibTorch's way to set an allocator is not thread-safe.
///
/// Source: c10/core/Allocator.h, c10/core/CPUAllocator.h of LibTorch 2.11.
class BudgetedCpuDevice : public MemoryDevice {
 public:
  /// Allocation number `k` (from 1, refused ones counted) of the next trial fails as if the budget were spent, once; its
  /// text says "(injected: allocation k of this trial)". Zero: none.  Throws: InvalidArgument for a negative number.
  virtual void fail_allocation(std::int64_t k) = 0;

  /// Spends the budget as CUDA's caching allocator would on a card: memory is taken in segments, freed blocks stay
  /// reserved, a request without room flushes what is cached and is tried again, and fragmentation counts. Kernels and
  /// numbers stay the CPU's. `settings` as in PYTORCH_CUDA_ALLOC_CONF (parse_allocator_settings); none: sizes are rounded
  /// up to 512 bytes and nothing is cached, as at first.
  /// What the CPU's operators ask for is not what a card's would (their scratch differs): this shows an allocator's
  /// effects in a test, and predicts no card.
  /// Throws: InvalidAllocatorSettings; std::logic_error while a trial is open or memory of one is still allocated.
  virtual void account_with(std::optional<AllocatorSettings> settings) = 0;
};

/// `index` names the account, so that several devices (ranks in threads) may live in one process; torch's device is `cpu`.
/// Budget none: the machine's memory (its cgroup's limit, where that is less).
/// Devices of one index share what is live, and may not have trials open at the same time.
/// Throws: InvalidArgument for a budget of zero or less and for a negative index; std::logic_error if another copy of
/// maxbatch in this process has installed its allocator already.
std::shared_ptr<BudgetedCpuDevice> budgeted_cpu_device(std::optional<Bytes> budget = std::nullopt,
                                                       c10::DeviceIndex index = 0);

}  // namespace maxbatch
