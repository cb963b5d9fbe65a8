#pragma once

#include <maxbatch/impl/simulation/rounded_up.hpp>
#include <maxbatch/simulation/device_address_space.hpp>

#include <algorithm>
#include <utility>

namespace maxbatch {
namespace detail {
inline namespace MAXBATCH_ABI_NAMESPACE {

// Only the order of addresses matters; these are far apart, and never 0.
constexpr DeviceAddressRange kModelledAddresses = {DeviceAddress{1} << 40, DeviceAddress{1} << 46};
constexpr DeviceAddress kFirstReservedAddress = DeviceAddress{1} << 47;

/// Addresses that no purchase has: below all where there is room for any card, as a real process would go on.
inline DeviceAddressRange addresses_beside(std::vector<SegmentPurchase> const& purchases) {
  constexpr DeviceAddress kBottom = DeviceAddress{1} << 30;
  constexpr DeviceAddress kRoom = DeviceAddress{1} << 42;
  auto lowest = kModelledAddresses.end;
  DeviceAddress end = kModelledAddresses.begin;
  for (auto const& purchase : purchases) {
    lowest = std::min(lowest, purchase.address);
    end = std::max(end, purchase.address + static_cast<std::uint64_t>(purchase.size.count));
  }
  if (lowest > kBottom + kRoom) { return {kBottom, lowest}; }
  return {rounded_up(end, kRoom), rounded_up(end, kRoom) + 16 * kRoom};
}

}  // namespace MAXBATCH_ABI_NAMESPACE
}  // namespace detail

inline namespace MAXBATCH_ABI_NAMESPACE {

MAXBATCH_INLINE DeviceAddressSpace DeviceAddressSpace::recorded(std::vector<SegmentPurchase> purchases) {
  DeviceAddressSpace space(DriverAddressSpace(detail::addresses_beside(purchases), 0));
  space.next_reservation_ = detail::kFirstReservedAddress;
  space.recording_ =
      Recording{std::make_shared<std::vector<SegmentPurchase> const>(std::move(purchases)), std::size_t{0}};
  return space;
}

MAXBATCH_INLINE DeviceAddressSpace DeviceAddressSpace::modelled(DriverPlacement const& placement) {
  DeviceAddressSpace space(DriverAddressSpace(detail::kModelledAddresses, placement.seed));
  space.placement_ = placement;
  space.next_reservation_ = detail::kFirstReservedAddress;
  // The context: a reservation of 96 MiB whose upper 24 MiB are free, then local memory.
  auto const take = [&](Bytes size) { return space.driver_.allocate(static_cast<std::uint64_t>(size.count)); };
  static_cast<void>(take(Bytes{70 << 20}));
  static_cast<void>(take(Bytes{2 << 20}));
  space.local_memory_ = take(placement.local_memory).value_or(0);
  space.driver_.begin_set_up();
  return space;
}

MAXBATCH_INLINE bool DeviceAddressSpace::is_next(Bytes size) const {
  return recording_.purchases && recording_.next < recording_.purchases->size() &&
         (*recording_.purchases)[recording_.next].size == size;
}

MAXBATCH_INLINE void DeviceAddressSpace::diverge() {
  if (!recording_.purchases) { return; }
  recording_ = {};
  diverged_ = true;
}

MAXBATCH_INLINE std::optional<DeviceAddress> DeviceAddressSpace::allocate(Bytes size) {
  if (is_next(size)) { return (*recording_.purchases)[recording_.next++].address; }
  diverge();
  return driver_.allocate(static_cast<std::uint64_t>(size.count));
}

MAXBATCH_INLINE void DeviceAddressSpace::release(DeviceAddress address) {
  static_cast<void>(driver_.release(address));  // a recorded one is not the driver's
}

MAXBATCH_INLINE DeviceAddress DeviceAddressSpace::reserve(Bytes size) {
  auto const address = next_reservation_;
  next_reservation_ += detail::rounded_up(static_cast<std::uint64_t>(size.count), DeviceAddress{1} << 30);
  return address;
}

MAXBATCH_INLINE DeviceAddress DeviceAddressSpace::settled(DeviceAddress reserved, Bytes first_mapped) const {
  return is_next(first_mapped) ? (*recording_.purchases)[recording_.next].address : reserved;
}

MAXBATCH_INLINE void DeviceAddressSpace::note_mapped(DeviceAddress address, Bytes size) {
  if (is_next(size) && (*recording_.purchases)[recording_.next].address == address) {
    ++recording_.next;
  } else {
    diverge();
  }
}

MAXBATCH_INLINE void DeviceAddressSpace::grow_local_memory() {
  if (local_memory_grown_ || local_memory_ == 0) { return; }
  local_memory_grown_ = true;
  driver_.settle();
  static_cast<void>(driver_.release(local_memory_));
  auto const grown = driver_.allocate(static_cast<std::uint64_t>(placement_.grown_local_memory.count));
  local_memory_ = grown.value_or(0);
  static_cast<void>(driver_.allocate(DriverAddressSpace::kGranule));
}

MAXBATCH_INLINE void DeviceAddressSpace::create_cublas_handle() {
  if (local_memory_ == 0) { return; }  // a recording
  if (cublas_handles_++ > 0) { driver_.map_thread_arena(); }
  static_cast<void>(driver_.allocate(static_cast<std::uint64_t>(placement_.cublas_handle.count)));
}

}  // namespace MAXBATCH_ABI_NAMESPACE
}  // namespace maxbatch
