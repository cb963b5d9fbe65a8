#include "cuda_trial_window.hpp"

#include "allocator_hook.hpp"
#include "allocator_snapshot.hpp"

#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAGuard.h>

#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>

namespace maxbatch::detail {
namespace {

using c10::CachingAllocator::StatType;

constexpr auto kAggregate = static_cast<std::size_t>(StatType::AGGREGATE);

std::optional<Bytes> device_free(c10::DeviceIndex index) {
  std::size_t free = 0;
  std::size_t total = 0;
  try {
    c10::cuda::CUDAGuard const guard(index);
    if (cudaMemGetInfo(&free, &total) == cudaSuccess) { return Bytes{static_cast<std::int64_t>(free)}; }
  } catch (...) {  // NOLINT(bugprone-empty-catch): a lost device has nothing to say
  }
  return std::nullopt;
}

}  // namespace

CudaTrialWindow::CudaTrialWindow(c10::DeviceIndex index, std::optional<Bytes> budget, bool& peaks_are_exact)
    : index_(index), peaks_are_exact_(peaks_are_exact) {
  auto& hook = AllocatorHook::of_process();
  if (!hook.attach(index_, AllocatorHook::Place::trial, ledger_)) {
    throw std::logic_error(
        "A trial is already open on cuda:" + std::to_string(index_) +
        ". One at a time: end it (destroy its TrialWindow, or wait for the other finder) before opening "
        "the next.");
  }
  try {
    AllocationTrace tables;
    auto const segments = allocator_segments(index_, tables);
    retries_before_ = c10::cuda::CUDACachingAllocator::getDeviceStats(index_).num_alloc_retries;
    budget_.emplace(index_, budget);
    ledger_.begin(allocator_rules(), segments, allocator_limit(index_));
  } catch (...) {
    hook.detach(index_, AllocatorHook::Place::trial);
    throw;
  }
}

CudaTrialWindow::~CudaTrialWindow() {
  CudaTrialWindow::disarm();
  AllocatorHook::of_process().detach(index_, AllocatorHook::Place::trial);
}

Phase CudaTrialWindow::enter_phase(Phase phase) noexcept {
  auto const before = ledger_.enter_phase(phase);
  AllocatorHook::of_process().tell_recorder(index_,
                                            [&](AllocatorListener& recorder) { recorder.on_phase(before, phase); });
  return before;
}

void CudaTrialWindow::begin_step(std::int64_t number) noexcept {
  AllocatorHook::of_process().tell_recorder(index_,
                                            [&](AllocatorListener& recorder) { recorder.on_step_begin(number); });
}

void CudaTrialWindow::end_step(std::int64_t number) noexcept {
  AllocatorHook::of_process().tell_recorder(index_, [&](AllocatorListener& recorder) {
    recorder.on_step_end(number, ledger_.evidence().peaks, Bytes{ledger_.totals().reserved});
  });
}

TrialEvidence CudaTrialWindow::evidence() const { return final_ ? *final_ : read(); }

void CudaTrialWindow::disarm() noexcept {
  if (final_) { return; }
  try {
    final_ = read();
  } catch (...) { final_.emplace(); }
  budget_.reset();
  ledger_.freeze();
}

std::uint64_t CudaTrialWindow::layout_fingerprint() const {
  LayoutFingerprint fingerprint;
  AllocationTrace tables;
  for (auto const& segment : allocator_segments(index_, tables)) {
    fingerprint.mix(segment.address);
    fingerprint.mix(static_cast<std::uint64_t>(segment.size));
    for (auto const& block : segment.blocks) {
      fingerprint.mix(static_cast<std::uint64_t>(block.size));
      fingerprint.mix(static_cast<std::uint64_t>(block.state));
    }
  }
  return fingerprint.value();
}

TrialEvidence CudaTrialWindow::read() const {
  auto evidence = ledger_.evidence();
  auto const events = ledger_.event_count();
  auto const stats = c10::cuda::CUDACachingAllocator::getDeviceStats(index_);
  auto const followed = ledger_.totals();
  bool const equal = followed.requested == stats.requested_bytes[kAggregate].current &&
                     followed.allocated == stats.allocated_bytes[kAggregate].current &&
                     followed.active == stats.active_bytes[kAggregate].current &&
                     followed.reserved == stats.reserved_bytes[kAggregate].current && ledger_.is_consistent();
  // Another thread may have allocated in between: then the two are of different moments.
  if (!equal && events == ledger_.event_count()) { peaks_are_exact_ = false; }
  if (!peaks_are_exact_) {
    auto const repeat = [](MemoryPeaks& peaks) { peaks.allocated = peaks.active = peaks.reserved; };
    repeat(evidence.peaks);
    for (auto& phase : evidence.phases) { repeat(phase.peaks); }
  }
  // A refusal for good counts as a retry as well. The program may have reset the counters meanwhile.
  auto const retries = stats.num_alloc_retries - (stats.num_alloc_retries < retries_before_ ? 0 : retries_before_);
  evidence.allocation_retries =
      std::max<std::int64_t>(0, retries - evidence.out_of_memory_events - evidence.reduced_workspaces);
  if (!evidence.free_at_failure) { evidence.free_at_failure = device_free(index_); }
  return evidence;
}

}  // namespace maxbatch::detail
