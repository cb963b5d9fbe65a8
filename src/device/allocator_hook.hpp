#pragma once

#include "allocator_event.hpp"
#include <maxbatch/search/phase.hpp>

#include <c10/core/Device.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>

namespace maxbatch::detail {

/// The one tracker and the one out-of-memory observer that this process attaches to LibTorch's CUDA caching allocator.
///
/// LibTorch cannot detach them, so they stay and cost a look at an atomic pointer per event (measured:
/// tests/benchmarks/cuda_hook_benchmark.cpp); who listens comes and goes, by device index.
class AllocatorHook {
 public:
  /// A trial's ledger and a trace recorder may listen at the same time, one of each.
  enum class Place : std::uint8_t { trial, recorder };

  /// Attaches at the first call, when CUDA has been initialised: allocators of all devices exist from then on.
  /// Throws: std::logic_error if another copy of maxbatch in this process was first.  Threads: any.
  static AllocatorHook& of_process();

  /// False, and nothing is changed, if somebody listens there already.
  bool attach(c10::DeviceIndex index, Place place, AllocatorListener& listener) noexcept;
  /// When it returns nothing runs in the listener any more. For the one who attached it.
  void detach(c10::DeviceIndex index, Place place) noexcept;
  /// Calls `tell(listener)` for the recorder of `index`, if there is one.
  template <typename Tell>
  void tell_recorder(c10::DeviceIndex index, Tell&& tell) noexcept {
    auto& device = devices_[static_cast<std::size_t>(index)];
    auto& place = device.at[static_cast<std::size_t>(Place::recorder)];
    if (place.load(std::memory_order_relaxed) == nullptr) { return; }
    std::lock_guard<std::mutex> const lock(device.telling);
    if (auto* const recorder = place.load(std::memory_order_acquire)) { tell(*recorder); }
  }
  /// Does `work`, and lets no trial begin meanwhile; or not, and answers false, if one is open on any other device than `index`.
  template <typename Work>
  bool run_unless_others_have_trials(c10::DeviceIndex index, Work&& work) {
    std::lock_guard<std::mutex> const lock(beginning_);
    if (others_have_trials(index)) { return false; }
    work();
    return true;
  }

 private:
  static constexpr std::size_t kDevices = 128;  // as many as c10::DeviceIndex has non-negative values

  struct Listeners {
    std::array<std::atomic<AllocatorListener*>, 2> at{};
    std::mutex telling;  // no listener goes while it is told of something other than an event
  };

  AllocatorHook();
  bool others_have_trials(c10::DeviceIndex index) const noexcept;
  bool anybody_listens(std::int64_t device) const noexcept;
  void tell_refusal(std::int64_t device, SegmentRefusal const& refusal) noexcept;

  std::array<Listeners, kDevices> devices_;
  std::mutex beginning_;  // of a listener's time
};

}  // namespace maxbatch::detail
