#pragma once

#include <maxbatch/config.hpp>
#include <maxbatch/simulation/device_address.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <random>
#include <vector>

namespace maxbatch {
inline namespace MAXBATCH_ABI_NAMESPACE {

/// Where the driver puts device memory: the rule that was read off an H200's driver 580. The driver reserves host addresses
/// in multiples of 32 MiB, newest first, best fit inside one, and gives a reservation back when it becomes empty; the
/// kernel serves reservations from the highest gap that fits, at its upper end. A value: a copy continues on its own.
/// Units: bytes, served in multiples of 2 MiB.  Threads: not thread-safe.
class DriverAddressSpace {
 public:
  static constexpr std::uint64_t kGranule = std::uint64_t{2} << 20;
  static constexpr std::uint64_t kReservationGranule = std::uint64_t{32} << 20;

  /// With `seed` other than 0, reservations between `begin_set_up` and `settle` go to a gap of the host's memory, too, when there is
  /// one. When is drawn: the only part of the order that differs from run to run.
  DriverAddressSpace(DeviceAddressRange area, std::uint64_t seed);

  /// Nothing when no gap is large enough.
  [[nodiscard]] std::optional<DeviceAddress> allocate(std::uint64_t bytes);
  /// What the allocation that begins at `address` took, in multiples of 2 MiB; nothing when none begins there.
  [[nodiscard]] std::optional<std::uint64_t> size_of(DeviceAddress address) const;
  /// The allocation that holds `address`.
  [[nodiscard]] std::optional<DeviceAddressRange> allocation_around(DeviceAddress address) const;
  bool release(DeviceAddress address);

  /// A new thread's malloc arena: 128 MiB mapped, of which the half that is 64 MiB aligned stays.
  void map_thread_arena();
  /// From here on reservations go below everything that there is: gaps above are forgotten.
  void settle();
  /// From here on reservations go to the gap, if there is a seed: the context's own lie together.
  void begin_set_up();

 private:
  struct Allocation {
    DeviceAddressRange range;
    DeviceAddress reservation = 0;
  };
  struct Reservation {
    DeviceAddressRange range;
    std::vector<DeviceAddressRange> holes;  // by address; never adjacent

    [[nodiscard]] std::optional<std::size_t> best_hole(std::uint64_t bytes) const;
    [[nodiscard]] bool empty() const;
  };

  [[nodiscard]] Allocation const* find(DeviceAddress address) const;
  std::optional<DeviceAddress> map_host(std::uint64_t bytes);
  std::optional<DeviceAddress> map_in_upper_row(std::uint64_t bytes);
  void unmap_host(DeviceAddressRange range);
  Reservation* reserve(std::uint64_t bytes);
  std::optional<DeviceAddress> place(std::uint64_t size);
  DeviceAddress take(Reservation& reservation, std::size_t hole, std::uint64_t bytes);

  std::uint64_t seed_;
  bool in_set_up_ = false;
  DeviceAddressRange upper_row_;      // the set-up's gap
  std::uint64_t moved_ = 0;           // bytes allocated in the set-up
  std::uint64_t in_upper_row_ = 0;    // bytes of it that were taken, from its end on
  std::uint64_t left_in_pieces_ = 0;  // of the host's memory, drawn
  std::mt19937_64 random_;
  std::vector<DeviceAddressRange> gaps_;   // of host addresses, ascending; never adjacent
  std::vector<Reservation> reservations_;  // oldest first
  std::vector<Allocation> allocations_;    // by address
};

}  // namespace MAXBATCH_ABI_NAMESPACE
}  // namespace maxbatch

#if !defined(MAXBATCH_COMPILED_LIB)
#include <maxbatch/impl/simulation/driver_address_space_inl.hpp>
#endif
