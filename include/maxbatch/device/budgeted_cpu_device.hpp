#pragma once

#include <maxbatch/device/memory_device.hpp>

#include <cstdint>
#include <memory>
#include <optional>

namespace maxbatch {

/// The CPU's allocator under a byte budget: real kernels, real numbers, a memory boundary.
///
/// The first device made installs an allocator around LibTorch's CPU allocator. LibTorch cannot take one back, so it
/// stays for the life of the process: it hands every call through untouched unless a trial is open. While one is, each
/// allocation is charged, rounded up to 512 bytes as the CUDA caching allocator rounds, to the device whose trial is open
/// on the calling thread (or to the only open trial, for threads of LibTorch's pools), under the phase of that moment.
/// A request that does not fit throws `c10::OutOfMemoryError` ("CPU out of memory (maxbatch budget) …").
/// Charges end when the memory is freed, by whichever thread, also after the trial.
///
/// What it does not see: memory that libraries take behind LibTorch's back (oneDNN and MKL scratch; measured in
/// docs/cpu_budget.md), and storages that were allocated before: say those with `set_resident`.
///
/// Source: c10/core/Allocator.h, c10/core/CPUAllocator.h of LibTorch 2.11.
class BudgetedCpuDevice : public MemoryDevice {
 public:
  /// Allocation number `k` (from 1) of the next trial fails as if the budget were spent, once. Zero: none.
  virtual void fail_allocation(std::int64_t k) = 0;
};

/// `index` names the account, so that several devices (ranks in threads) may live in one process; torch's device is `cpu`.
/// Budget none: the machine's memory (its cgroup's limit, where that is less).
/// Throws: InvalidArgument for a budget of zero or less; std::logic_error if another copy of maxbatch in this process has
/// installed its allocator already.
std::shared_ptr<BudgetedCpuDevice> budgeted_cpu_device(std::optional<Bytes> budget = std::nullopt,
                                                       c10::DeviceIndex index = 0);

}  // namespace maxbatch
