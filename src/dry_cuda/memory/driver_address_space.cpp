#include "driver_address_space.hpp"

#include <algorithm>

namespace maxbatch::dry {
namespace {

constexpr std::uint64_t kPage = 4096;

constexpr std::uint64_t rounded_up(std::uint64_t value, std::uint64_t granule) {
  return (value + granule - 1) / granule * granule;
}

/// Adds a range to a set of ranges, so that none touch.
void add_range(std::map<Address, Address>& ranges, AddressRange added) {
  auto next = ranges.lower_bound(added.begin);
  if (next != ranges.end() && next->first == added.end) {
    added.end = next->second;
    next = ranges.erase(next);
  }
  if (next != ranges.begin()) {
    auto const previous = std::prev(next);
    if (previous->second == added.begin) {
      previous->second = added.end;
      return;
    }
  }
  ranges.emplace(added.begin, added.end);
}

}  // namespace

struct DriverAddressSpace::Reservation {
  AddressRange range;
  std::map<Address, Address> holes;

  [[nodiscard]] std::optional<Address> best_hole(std::uint64_t bytes) const {
    std::optional<AddressRange> best;
    for (auto const& [begin, end] : holes) {
      if (end - begin >= bytes && (!best || end - begin < best->size())) { best = AddressRange{begin, end}; }
    }
    return best ? std::optional(best->begin) : std::nullopt;
  }
  [[nodiscard]] bool empty() const {
    return holes.size() == 1 && holes.begin()->first == range.begin && holes.begin()->second == range.end;
  }
};

DriverAddressSpace::DriverAddressSpace(AddressRange area, std::uint64_t seed) : seed_(seed), random_(seed) {
  auto const middle = area.begin + area.size() / 2;
  scattered_ = {middle, area.end};
  gaps_.emplace(area.begin, seed == 0 ? area.end : middle);
}

DriverAddressSpace::~DriverAddressSpace() = default;

std::optional<Address> DriverAddressSpace::map_host(std::uint64_t bytes) {
  for (auto gap = gaps_.rbegin(); gap != gaps_.rend(); ++gap) {
    if (gap->second - gap->first < bytes) { continue; }
    gap->second -= bytes;
    auto const address = gap->second;
    if (gap->first == address) { gaps_.erase(gap->first); }
    return address;
  }
  return std::nullopt;
}

std::optional<Address> DriverAddressSpace::map_somewhere(std::uint64_t bytes) {
  auto const places = (scattered_.size() - std::min(bytes, scattered_.size())) / kReservationGranule;
  for (int tries = 0; places > 0 && tries < 1000; ++tries) {
    auto const begin = scattered_.begin + random_() % places * kReservationGranule;
    auto const taken = std::any_of(reservations_.begin(), reservations_.end(), [&](auto const& other) {
      return other->range.begin < begin + bytes && begin < other->range.end;
    });
    if (!taken) { return begin; }
  }
  return std::nullopt;
}

void DriverAddressSpace::unmap_host(AddressRange range) {
  if (range.size() == 0) { return; }
  if (seed_ != 0 && range.begin >= scattered_.begin) { return; }  // never a gap that anything else could go to
  add_range(gaps_, range);
}

DriverAddressSpace::Reservation* DriverAddressSpace::reserve(std::uint64_t bytes) {
  auto const size = rounded_up(bytes, kReservationGranule);
  std::optional<Address> begin = in_set_up_ ? map_somewhere(size) : std::nullopt;
  if (!begin) {
    // The driver maps so much that an aligned part is in it, and gives back what is around that.
    auto const mapped = size + kReservationGranule - kPage;
    auto const address = map_host(mapped);
    if (!address) { return nullptr; }
    begin = rounded_up(*address, kReservationGranule);
    unmap_host({*address, *begin});
    unmap_host({*begin + size, *address + mapped});
  }
  auto reservation = std::make_unique<Reservation>();
  reservation->range = {*begin, *begin + size};
  reservation->holes.emplace(*begin, *begin + size);
  reservations_.push_back(std::move(reservation));
  return reservations_.back().get();
}

Address DriverAddressSpace::take(Reservation& reservation, Address address, std::uint64_t bytes) {
  auto const hole = reservation.holes.find(address);
  auto const end = hole->second;
  reservation.holes.erase(hole);
  if (address + bytes != end) { reservation.holes.emplace(address + bytes, end); }
  allocations_.emplace(address, Allocation{&reservation, bytes});
  return address;
}

std::optional<Address> DriverAddressSpace::allocate(std::uint64_t bytes) {
  auto const size = rounded_up(bytes, kGranule);
  for (auto reservation = reservations_.rbegin(); reservation != reservations_.rend(); ++reservation) {
    if (auto const hole = (*reservation)->best_hole(size)) { return take(**reservation, *hole, size); }
  }
  auto* const reservation = reserve(size);
  if (reservation == nullptr) { return std::nullopt; }
  return take(*reservation, reservation->range.begin, size);
}

std::optional<std::uint64_t> DriverAddressSpace::size_of(Address address) const {
  auto const found = allocations_.find(address);
  return found == allocations_.end() ? std::nullopt : std::optional(found->second.bytes);
}

std::optional<AddressRange> DriverAddressSpace::allocation_around(Address address) const {
  auto after = allocations_.upper_bound(address);
  if (after == allocations_.begin()) { return std::nullopt; }
  --after;
  if (address - after->first >= after->second.bytes) { return std::nullopt; }
  return AddressRange{after->first, after->first + after->second.bytes};
}

bool DriverAddressSpace::release(Address address) {
  auto const found = allocations_.find(address);
  if (found == allocations_.end()) { return false; }
  auto* const reservation = found->second.reservation;
  add_range(reservation->holes, {address, address + found->second.bytes});
  allocations_.erase(found);
  if (reservation->empty()) {
    unmap_host(reservation->range);
    reservations_.erase(std::find_if(reservations_.begin(), reservations_.end(),
                                     [&](auto const& other) { return other.get() == reservation; }));
  }
  return true;
}

void DriverAddressSpace::map_thread_arena() {
  constexpr std::uint64_t kHeap = std::uint64_t{64} << 20;
  auto const address = map_host(2 * kHeap);
  if (!address) { return; }
  auto const aligned = rounded_up(*address, kHeap);
  unmap_host({*address, aligned});
  unmap_host({aligned + kHeap, *address + 2 * kHeap});
}

void DriverAddressSpace::settle() {
  in_set_up_ = false;
  if (gaps_.empty()) { return; }
  auto lowest = gaps_.begin()->second;
  for (auto const& reservation : reservations_) { lowest = std::min(lowest, reservation->range.begin); }
  auto const bottom = gaps_.begin()->first;
  gaps_.clear();
  if (bottom < lowest) { gaps_.emplace(bottom, lowest); }
}

}  // namespace maxbatch::dry
