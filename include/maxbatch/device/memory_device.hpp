#pragma once

#include <maxbatch/bytes.hpp>
#include <maxbatch/device/trial_evidence.hpp>
#include <maxbatch/search/phase.hpp>

#include <c10/core/Device.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace maxbatch {

/// What an answer rests on.
enum class DeviceEvidence {
  measured,  ///< a card in this machine
  dry,       ///< LibTorch's own CUDA code over a runtime without a device
  cpu        ///< the CPU's allocator under a budget
};

std::string_view to_string(DeviceEvidence evidence);

struct DeviceDescription {
  std::string name;  ///< for people: "NVIDIA H200", "cpu under a budget"
  c10::Device torch_device = c10::Device(c10::kCPU);
  Bytes total;                  ///< what the device has, before any budget
  std::optional<Bytes> usable;  ///< what of it a search without a budget may count on now; none: all of it
  /// What of `total` is held by others than LibTorch's allocator in this process, measured when asked: context, library
  /// handles, kernels, other processes. None: the device has no such memory.
  std::optional<Bytes> outside_allocator;
  std::optional<Bytes> budget;  ///< none: what the device has
  std::string allocator_settings;
  int multiprocessors = 0;                 ///< 0: has none
  int max_threads_per_multiprocessor = 0;  ///< likewise
  DeviceEvidence evidence = DeviceEvidence::cpu;
};

/// One trial's view of a device's memory. Counting and the budget are in force from `MemoryDevice::open_trial` until
/// `disarm` or destruction; neither throws.
class TrialWindow {
 public:
  virtual ~TrialWindow() = default;

  /// Counts what follows under `phase`; returns the phase before, for whoever has to put it back.
  /// Synchronises: no.  Threads: allocations of other threads meanwhile count under `phase` too.
  virtual Phase enter_phase(Phase phase) noexcept = 0;
  /// What follows is step `number` of the trial, from 0; for whoever records. The step has ended and the device is idle.
  virtual void begin_step(std::int64_t /*number*/) noexcept {}
  virtual void end_step(std::int64_t /*number*/) noexcept {}

  /// Peaks so far, the last refused request and the counters.
  virtual TrialEvidence evidence() const = 0;

  /// The budget and the counting of peaks end; frees are still followed.
  virtual void disarm() noexcept = 0;

  /// What was allocated since the window was opened and is not freed yet, as the device rounds it; also after `disarm`.
  /// After a trial's clean-up: its leak.
  virtual Bytes still_allocated() const noexcept = 0;
};

/// Something with memory that a training step can run out of.
/// Threads: not thread-safe; one finder per device index at a time.
class MemoryDevice {
 public:
  virtual ~MemoryDevice() = default;

  virtual DeviceDescription describe() const = 0;
  virtual c10::Device torch_device() const = 0;
  /// None: what the device has.  Throws: InvalidArgument for a budget of zero or less.
  virtual void set_budget(std::optional<Bytes> budget) = 0;
  /// Memory of state that existed before the device could see it (the live model of a training program), counted from
  /// the next trial on. A device whose allocator sees everything ignores it.
  virtual void set_resident(Bytes already_allocated) = 0;
  /// Context, library handles, lazy modules: whatever the first use makes.
  virtual void warm_up() = 0;
  /// Arms; the window's destructor disarms and never throws. One window at a time.
  virtual std::unique_ptr<TrialWindow> open_trial() = 0;
  /// Waits for the device; surfaces asynchronous errors as exceptions.
  virtual void synchronize() = 0;
  virtual void release_cached_memory() noexcept = 0;
  virtual bool is_alive() noexcept = 0;
};

}  // namespace maxbatch
