#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <vector>

namespace maxbatch::dry {

using Address = std::uint64_t;

/// Half open.
struct AddressRange {
  Address begin = 0;
  Address end = 0;
  [[nodiscard]] std::uint64_t size() const { return end - begin; }
};

/// Where the driver puts device memory: docs/address_space.md, section 1, to the letter. The driver reserves host addresses
/// in multiples of 32 MiB, newest first, best fit inside one, and gives a reservation back when it becomes empty; the
/// kernel serves reservations from the highest gap that fits, at its upper end.
/// Units: bytes, served in multiples of 2 MiB.  Threads: not thread-safe.
class DriverAddressSpace {
 public:
  static constexpr std::uint64_t kGranule = std::uint64_t{2} << 20;
  static constexpr std::uint64_t kReservationGranule = std::uint64_t{32} << 20;

  /// With `seed` other than 0, every reservation until `settle` lies at a random place in the upper half, as in a process
  /// whose host memory has gaps (section 3: the only part of the order that differs from run to run).
  DriverAddressSpace(AddressRange area, std::uint64_t seed);
  ~DriverAddressSpace();
  DriverAddressSpace(DriverAddressSpace const&) = delete;
  DriverAddressSpace& operator=(DriverAddressSpace const&) = delete;

  /// Nothing when no gap is large enough.
  [[nodiscard]] std::optional<Address> allocate(std::uint64_t bytes);
  /// What the allocation that begins at `address` took, in multiples of 2 MiB; nothing when none begins there.
  [[nodiscard]] std::optional<std::uint64_t> size_of(Address address) const;
  /// The allocation that holds `address`.
  [[nodiscard]] std::optional<AddressRange> allocation_around(Address address) const;
  bool release(Address address);

  /// A new thread's malloc arena: 128 MiB mapped, of which the half that is 64 MiB aligned stays.
  void map_thread_arena();
  /// From here on reservations go below everything that there is: gaps above are forgotten.
  void settle();
  /// From here on reservations lie at random places, if there is a seed: the context's own lie together.
  void begin_set_up() { in_set_up_ = seed_ != 0; }

 private:
  struct Reservation;
  struct Allocation {
    Reservation* reservation;
    std::uint64_t bytes;
  };

  std::optional<Address> map_host(std::uint64_t bytes);
  std::optional<Address> map_somewhere(std::uint64_t bytes);
  void unmap_host(AddressRange range);
  Reservation* reserve(std::uint64_t bytes);
  Address take(Reservation& reservation, Address address, std::uint64_t bytes);

  std::uint64_t seed_;
  bool in_set_up_ = false;
  AddressRange scattered_;  // where reservations of the set-up lie at random
  std::mt19937_64 random_;
  std::map<Address, Address> gaps_;                         // begin to end; never adjacent
  std::vector<std::unique_ptr<Reservation>> reservations_;  // oldest first
  std::map<Address, Allocation> allocations_;
};

}  // namespace maxbatch::dry
