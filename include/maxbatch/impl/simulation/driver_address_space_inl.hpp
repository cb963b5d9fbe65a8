#pragma once

#include <maxbatch/impl/simulation/rounded_up.hpp>
#include <maxbatch/simulation/driver_address_space.hpp>

#include <algorithm>

namespace maxbatch {
namespace detail {
inline namespace MAXBATCH_ABI_NAMESPACE {

constexpr std::uint64_t kHostPage = 4096;

/// Adds a range to ranges in ascending order, so that none touch.
inline void add_range(std::vector<DeviceAddressRange>& ranges, DeviceAddressRange added) {
  auto next = std::lower_bound(ranges.begin(), ranges.end(), added.begin,
                               [](DeviceAddressRange const& range, DeviceAddress at) { return range.begin < at; });
  auto const joins_next = next != ranges.end() && next->begin == added.end;
  auto const joins_previous = next != ranges.begin() && std::prev(next)->end == added.begin;
  if (joins_previous && joins_next) {
    std::prev(next)->end = next->end;
    ranges.erase(next);
  } else if (joins_previous) {
    std::prev(next)->end = added.end;
  } else if (joins_next) {
    next->begin = added.begin;
  } else {
    ranges.insert(next, added);
  }
}

}  // namespace MAXBATCH_ABI_NAMESPACE
}  // namespace detail

inline namespace MAXBATCH_ABI_NAMESPACE {

MAXBATCH_INLINE std::optional<std::size_t> DriverAddressSpace::Reservation::best_hole(std::uint64_t bytes) const {
  std::optional<std::size_t> best;
  for (std::size_t i = 0; i < holes.size(); ++i) {
    if (holes[i].size() >= bytes && (!best || holes[i].size() < holes[*best].size())) { best = i; }
  }
  return best;
}

MAXBATCH_INLINE bool DriverAddressSpace::Reservation::empty() const {
  return holes.size() == 1 && holes.front().begin == range.begin && holes.front().end == range.end;
}

MAXBATCH_INLINE DriverAddressSpace::DriverAddressSpace(DeviceAddressRange area, std::uint64_t seed)
    : seed_(seed), random_(seed) {
  auto const middle = area.begin + area.size() / 2;
  upper_row_ = {middle, area.end};
  gaps_.push_back({area.begin, seed == 0 ? area.end : middle});
}

// Note [Where reservations of the set-up lie]
// While a model that was built on the host is moved to the card, the host's memory that it leaves behind opens a gap, high above the
// context's own. 65 logs of an H200 show two rows, each in descending order: one in that gap, from when it is large enough for a
// reservation, which then takes every second or third; all others follow the context. How much of what was left behind lies in one
// piece is another in every process, and is drawn. Not followed: in half of the vision transformers' logs, whose weights several
// threads draw, gaps between the threads' malloc arenas take up to a dozen reservations in between.
MAXBATCH_INLINE void DriverAddressSpace::begin_set_up() {
  if (seed_ == 0) { return; }
  constexpr std::uint64_t kMib = std::uint64_t{1} << 20;
  in_set_up_ = true;
  left_in_pieces_ = random_() % 64 * kMib;
}

MAXBATCH_INLINE std::optional<DeviceAddress> DriverAddressSpace::map_in_upper_row(std::uint64_t bytes) {
  auto const in_one_piece = moved_ / 5 * 4;  // small tensors stay in the host's heap
  if (in_one_piece < in_upper_row_ + bytes + kReservationGranule + left_in_pieces_) { return std::nullopt; }
  if (upper_row_.size() - in_upper_row_ < bytes) { return std::nullopt; }
  in_upper_row_ += bytes;
  return upper_row_.end - in_upper_row_;
}

MAXBATCH_INLINE std::optional<DeviceAddress> DriverAddressSpace::map_host(std::uint64_t bytes) {
  for (auto gap = gaps_.rbegin(); gap != gaps_.rend(); ++gap) {
    if (gap->size() < bytes) { continue; }
    gap->end -= bytes;
    auto const address = gap->end;
    if (gap->begin == address) { gaps_.erase(std::prev(gap.base())); }
    return address;
  }
  return std::nullopt;
}

MAXBATCH_INLINE void DriverAddressSpace::unmap_host(DeviceAddressRange range) {
  if (range.size() == 0) { return; }
  if (seed_ != 0 && range.begin >= upper_row_.begin) { return; }  // never a gap that anything else could go to
  detail::add_range(gaps_, range);
}

MAXBATCH_INLINE DriverAddressSpace::Reservation* DriverAddressSpace::reserve(std::uint64_t bytes) {
  auto const size = detail::rounded_up(bytes, kReservationGranule);
  std::optional<DeviceAddress> begin = in_set_up_ ? map_in_upper_row(size) : std::nullopt;
  if (!begin) {
    // The driver maps so much that an aligned part is in it, and gives back what is around that.
    auto const mapped = size + kReservationGranule - detail::kHostPage;
    auto const address = map_host(mapped);
    if (!address) { return nullptr; }
    begin = detail::rounded_up(*address, kReservationGranule);
    unmap_host({*address, *begin});
    unmap_host({*begin + size, *address + mapped});
  }
  reservations_.push_back({{*begin, *begin + size}, {{*begin, *begin + size}}});
  return &reservations_.back();
}

MAXBATCH_INLINE DeviceAddress DriverAddressSpace::take(Reservation& reservation, std::size_t hole,
                                                       std::uint64_t bytes) {
  auto& range = reservation.holes[hole];
  auto const address = range.begin;
  range.begin += bytes;
  if (range.size() == 0) { reservation.holes.erase(reservation.holes.begin() + static_cast<std::ptrdiff_t>(hole)); }
  auto const after = std::lower_bound(allocations_.begin(), allocations_.end(), address,
                                      [](Allocation const& other, DeviceAddress at) { return other.range.begin < at; });
  allocations_.insert(after, {{address, address + bytes}, reservation.range.begin});
  return address;
}

MAXBATCH_INLINE std::optional<DeviceAddress> DriverAddressSpace::allocate(std::uint64_t bytes) {
  auto const size = detail::rounded_up(bytes, kGranule);
  auto const address = place(size);
  if (in_set_up_ && address) { moved_ += size; }
  return address;
}

MAXBATCH_INLINE std::optional<DeviceAddress> DriverAddressSpace::place(std::uint64_t size) {
  for (auto reservation = reservations_.rbegin(); reservation != reservations_.rend(); ++reservation) {
    if (auto const hole = reservation->best_hole(size)) { return take(*reservation, *hole, size); }
  }
  auto* const reservation = reserve(size);
  if (reservation == nullptr) { return std::nullopt; }
  return take(*reservation, 0, size);
}

MAXBATCH_INLINE DriverAddressSpace::Allocation const* DriverAddressSpace::find(DeviceAddress address) const {
  auto after = std::upper_bound(allocations_.begin(), allocations_.end(), address,
                                [](DeviceAddress at, Allocation const& other) { return at < other.range.begin; });
  if (after == allocations_.begin() || std::prev(after)->range.end <= address) { return nullptr; }
  return &*std::prev(after);
}

MAXBATCH_INLINE std::optional<std::uint64_t> DriverAddressSpace::size_of(DeviceAddress address) const {
  auto const* const found = find(address);
  return found == nullptr || found->range.begin != address ? std::nullopt : std::optional(found->range.size());
}

MAXBATCH_INLINE std::optional<DeviceAddressRange> DriverAddressSpace::allocation_around(DeviceAddress address) const {
  auto const* const found = find(address);
  return found == nullptr ? std::nullopt : std::optional(found->range);
}

MAXBATCH_INLINE bool DriverAddressSpace::release(DeviceAddress address) {
  auto const* const found = find(address);
  if (found == nullptr || found->range.begin != address) { return false; }
  auto const released = *found;
  allocations_.erase(allocations_.begin() + (found - allocations_.data()));
  auto const reservation = std::find_if(reservations_.begin(), reservations_.end(),
                                        [&](auto const& other) { return other.range.begin == released.reservation; });
  detail::add_range(reservation->holes, released.range);
  if (reservation->empty()) {
    auto const range = reservation->range;
    reservations_.erase(reservation);
    unmap_host(range);
  }
  return true;
}

MAXBATCH_INLINE void DriverAddressSpace::map_thread_arena() {
  constexpr std::uint64_t kHeap = std::uint64_t{64} << 20;
  auto const address = map_host(2 * kHeap);
  if (!address) { return; }
  auto const aligned = detail::rounded_up(*address, kHeap);
  unmap_host({*address, aligned});
  unmap_host({aligned + kHeap, *address + 2 * kHeap});
}

MAXBATCH_INLINE void DriverAddressSpace::settle() {
  in_set_up_ = false;
  if (gaps_.empty()) { return; }
  auto lowest = gaps_.front().end;
  for (auto const& reservation : reservations_) { lowest = std::min(lowest, reservation.range.begin); }
  auto const bottom = gaps_.front().begin;
  gaps_.clear();
  if (bottom < lowest) { gaps_.push_back({bottom, lowest}); }
}

}  // namespace MAXBATCH_ABI_NAMESPACE
}  // namespace maxbatch
