#pragma once

#include <maxbatch/bytes.hpp>
#include <maxbatch/config.hpp>
#include <maxbatch/simulation/device_address.hpp>
#include <maxbatch/simulation/driver_address_space.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

namespace maxbatch {
inline namespace MAXBATCH_ABI_NAMESPACE {

/// What a training process makes the driver do to device memory beside what it asks for. The defaults are an H200's.
struct DriverPlacement {
  std::uint64_t seed = 0;  // a draw of the places that differ from run to run; 0: none differ, which is untypical
  Bytes local_memory{std::int64_t{414} << 20};
  Bytes grown_local_memory{std::int64_t{504} << 20};
  Bytes cublas_handle{std::int64_t{64} << 20};
};

/// A purchase of the allocator's: a segment, or pages mapped into an expandable one.
struct SegmentPurchase {
  DeviceAddress address = 0;
  Bytes size;
};

/// Where the driver puts what the allocator buys. The address decides between free blocks of one size and orders what a
/// flush gives back. A value: a copy continues on its own.
/// Threads: not thread-safe.
class DeviceAddressSpace {
 public:
  /// The addresses of a recording (its segment_alloc and segment_map events, in order) for as long as the same sizes are
  /// bought; from the first other one on, places below all of them, by the driver's rule.
  static DeviceAddressSpace recorded(std::vector<SegmentPurchase> purchases);
  /// The driver's rule, beginning with what it takes for the context itself.
  static DeviceAddressSpace modelled(DriverPlacement const& placement = {});

  DeviceAddressSpace() : DeviceAddressSpace(modelled()) {}

  // What the allocator does.
  /// cudaMalloc. Nothing when the address space is full.
  std::optional<DeviceAddress> allocate(Bytes size);
  void release(DeviceAddress address);
  /// cuMemAddressReserve, for an expandable segment.
  DeviceAddress reserve(Bytes size);
  /// Where a reservation really lies, which a recording only tells when the first pages are mapped into it.
  DeviceAddress settled(DeviceAddress reserved, Bytes first_mapped) const;
  /// Pages were mapped at a place that followed from the reservation.
  void note_mapped(DeviceAddress address, Bytes size);

  // What the rest of the process does to the driver. Recorded addresses hold the effect already.
  /// The first convolution or matrix product: the stacks move to a larger place; the set-up is over.
  void grow_local_memory();
  /// cublasCreate; each but the first in a thread of its own.
  void create_cublas_handle();

  /// Whether a recording was left.
  bool diverged() const { return diverged_; }

 private:
  struct Recording {
    std::shared_ptr<std::vector<SegmentPurchase> const> purchases;
    std::size_t next = 0;
  };

  explicit DeviceAddressSpace(DriverAddressSpace driver) : driver_(std::move(driver)) {}
  bool is_next(Bytes size) const;
  void diverge();

  DriverAddressSpace driver_;
  DriverPlacement placement_;
  Recording recording_;  // without purchases: there is none, or it was left
  bool diverged_ = false;
  bool local_memory_grown_ = false;
  DeviceAddress local_memory_ = 0;
  int cublas_handles_ = 0;
  DeviceAddress next_reservation_ = 0;
};

}  // namespace MAXBATCH_ABI_NAMESPACE
}  // namespace maxbatch

#if !defined(MAXBATCH_COMPILED_LIB)
#include <maxbatch/impl/simulation/device_address_space_inl.hpp>
#endif
