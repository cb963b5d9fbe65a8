#pragma once

#include <maxbatch/device/memory_device.hpp>

#include <memory>
#include <optional>
#include <stdexcept>

namespace maxbatch {

/// There is no such device, or budgets and peaks would mean nothing on it. The text says which and what to do.
class DeviceUnavailable : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// A CUDA device with LibTorch's own caching allocator: a card of this machine, or a dry card (`maxbatch dry-run`), with
/// the same code. `describe().evidence` says which.
///
/// Nothing is wrapped and nothing behaves otherwise: the allocator's trace tracker and out-of-memory observer tell what
/// happens, and the memory fraction is the budget.
///
/// - **Budget**: what the allocator may reserve on the device, by everybody in this process, exact to the byte. In force
///   while a trial is open; then the process's own memory fraction is put back. A budget of the device's memory or more is
///   no cap. Without a budget the process's own fraction holds. Memory outside the allocator does not count.
/// - **Peaks**: the allocator's own figures (requested, allocated, active, reserved bytes: those of getDeviceStats), by
///   phase, of everything on the device, model included. They are worked out from the trace, so that nobody's statistics
///   are reset. Where the trace cannot tell them (blocks of a pool that never splits), active and allocated peaks repeat
///   the reserved one.
/// - **Not restored**: the allocator's statistics. Its peaks and counters go on counting during trials, as for any other
///   use: reset them (resetPeakStats) where a program wants its own afterwards. Cached memory and the workspaces of cuBLAS
///   and cuBLASLt on the device are released before and after each trial; the program makes them again.
/// - **Stays until the process ends**: the tracker and the observer, which LibTorch cannot detach. Between trials they
///   look at an atomic pointer per event.
/// - **Outside the allocator**: context, library handles, kernels and other processes take memory that no budget counts.
///   `describe().outside_allocator` has measured it.
/// - Refused requests of a convolution's workspace are not failures, since LibTorch then takes a plan that needs less:
///   they count as TrialEvidence::reduced_workspaces. In `failed_request`, `requested` is what the allocator's trace says:
///   rounded up to 512 bytes.
///
/// With a trial open on another device of this process, LibTorch's way to release cached memory would disturb it, since it
/// releases that of all devices. This device's own is then released by a request that is refused on purpose: the process's
/// counters `num_ooms` and `num_alloc_retries` of this device rise by one each time, and its observers are told.
///
/// Threads: one finder per device index at a time; finders on different indices may run at the same time.
/// Source: c10/cuda/CUDACachingAllocator.h, ATen/cuda/CUDAContextLight.h of LibTorch 2.11.
class CudaDevice : public MemoryDevice {
 public:
  /// How many segments, blocks and bytes are followed is checked against the allocator's statistics in every trial; this
  /// is false once they differed.
  virtual bool peaks_are_exact() const = 0;
};

/// Initialises CUDA and attaches the tracker; makes no context on any other device.
/// Throws: DeviceUnavailable: LibTorch without CUDA, no driver or device, no such index, another allocator than the native
/// one, caching switched off, an integrated GPU; InvalidArgument for a budget of zero or less; std::logic_error if another
/// copy of maxbatch in this process has attached already.
/// `open_trial` throws std::logic_error while a trial is open on the same index, and DeviceUnavailable while the current
/// stream captures a graph.
std::shared_ptr<CudaDevice> cuda_device(c10::DeviceIndex index = 0, std::optional<Bytes> budget = std::nullopt);

}  // namespace maxbatch
