#include "allocator_hook.hpp"

#include "convolution_workspace.hpp"
#include "single_copy.hpp"

#include <c10/cuda/CUDACachingAllocator.h>

namespace maxbatch::detail {
namespace {

namespace allocator = c10::cuda::CUDACachingAllocator;
using Entry = allocator::TraceEntry;

TraceAction action_of(Entry const& entry) noexcept {
  switch (entry.action_) {
    case Entry::ALLOC: return TraceAction::alloc;
    case Entry::FREE_REQUESTED: return TraceAction::free_requested;
    case Entry::FREE_COMPLETED: return TraceAction::free_completed;
    case Entry::SEGMENT_ALLOC: return TraceAction::segment_alloc;
    case Entry::SEGMENT_FREE: return TraceAction::segment_free;
    case Entry::SEGMENT_MAP: return TraceAction::segment_map;
    case Entry::SEGMENT_UNMAP: return TraceAction::segment_unmap;
    case Entry::SNAPSHOT: return TraceAction::snapshot;
    case Entry::OOM: return TraceAction::oom;
  }
  return TraceAction::user_defined;
}

AllocatorEvent event_of(Entry const& entry) noexcept {
  AllocatorEvent event;
  event.address = entry.addr_;
  event.size = static_cast<std::int64_t>(entry.size_);
  event.stream = static_cast<std::uint64_t>(reinterpret_cast<std::uintptr_t>(entry.stream_));
  event.pool_first = static_cast<std::uint32_t>(entry.mempool_.first);
  event.pool_second = static_cast<std::uint32_t>(entry.mempool_.second);
  event.action = action_of(entry);
  return event;
}

}  // namespace

AllocatorHook& AllocatorHook::of_process() {
  static auto& hook = *new AllocatorHook;  // never destroyed: LibTorch keeps what refers to it
  return hook;
}

AllocatorHook::AllocatorHook() {
  claim_process();
  allocator::attachAllocatorTraceTracker([this](Entry const& entry) {
    for (auto& place : devices_[static_cast<std::size_t>(entry.device_)].at) {
      if (auto* const listener = place.load(std::memory_order_acquire)) { listener->on_event(event_of(entry)); }
    }
  });
  // c10 calls the second argument "allocated": it is the segment that could not be had.
  allocator::attachOutOfMemoryObserver([this](std::int64_t device, std::size_t segment, std::size_t, std::size_t free) {
    if (!anybody_listens(device)) { return; }
    SegmentRefusal refusal;
    refusal.segment = static_cast<std::int64_t>(segment);
    refusal.device_free = static_cast<std::int64_t>(free);
    refusal.is_workspace = wants_convolution_workspace();
    tell_refusal(device, refusal);
  });
}

bool AllocatorHook::attach(c10::DeviceIndex index, Place place, AllocatorListener& listener) noexcept {
  std::lock_guard<std::mutex> const lock(beginning_);
  AllocatorListener* nobody = nullptr;
  return devices_[static_cast<std::size_t>(index)].at[static_cast<std::size_t>(place)].compare_exchange_strong(
      nobody, &listener, std::memory_order_acq_rel);
}

void AllocatorHook::detach(c10::DeviceIndex index, Place place) noexcept {
  auto& device = devices_[static_cast<std::size_t>(index)];
  {
    std::lock_guard<std::mutex> const lock(device.telling);
    device.at[static_cast<std::size_t>(place)].store(nullptr, std::memory_order_release);
  }
  // The tracker runs under the device's lock, which this takes: whoever saw the listener has left it afterwards.
  try {
    allocator::getDeviceStats(index);
  } catch (...) {  // NOLINT(bugprone-empty-catch): it throws for an index that has no allocator, and then no tracker
  }
}

bool AllocatorHook::anybody_listens(std::int64_t device) const noexcept {
  for (auto const& place : devices_[static_cast<std::size_t>(device)].at) {
    if (place.load(std::memory_order_acquire) != nullptr) { return true; }
  }
  return false;
}

bool AllocatorHook::others_have_trials(c10::DeviceIndex index) const noexcept {
  for (std::size_t other = 0; other < kDevices; ++other) {
    if (other == static_cast<std::size_t>(index)) { continue; }
    if (devices_[other].at[static_cast<std::size_t>(Place::trial)].load(std::memory_order_acquire) != nullptr) {
      return true;
    }
  }
  return false;
}

void AllocatorHook::tell_refusal(std::int64_t device, SegmentRefusal const& refusal) noexcept {
  auto& listeners = devices_[static_cast<std::size_t>(device)];
  std::lock_guard<std::mutex> const lock(listeners.telling);
  for (auto& place : listeners.at) {
    if (auto* const listener = place.load(std::memory_order_acquire)) { listener->on_refusal(refusal); }
  }
}

}  // namespace maxbatch::detail
