#pragma once

#include <maxbatch/config.hpp>
#include <maxbatch/simulation/device_address_space.hpp>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

namespace maxbatch {
inline namespace MAXBATCH_ABI_NAMESPACE {

/// Where in a program, as the number of requests before, the driver does something of its own to device memory.
struct DriverEvents {
  /// The first convolution or matrix product. From a recording of any batch size; unknown: two requests after the set-up
  /// (model and optimizer built) is right or a little early nearly always, and late is what does harm.
  std::optional<std::int64_t> local_memory_grows_before;
  /// The requests for cuBLAS's workspaces, ascending: 32 MiB on Hopper and never freed.
  std::vector<std::int64_t> cublas_handle_before;
};

/// Makes the events happen while a program is replayed.
class DriverEventSchedule {
 public:
  explicit DriverEventSchedule(DriverEvents events) : events_(std::move(events)) { look_ahead(); }

  /// Ahead of each request, counted from 0.
  void before_request(std::int64_t request, DeviceAddressSpace& addresses) {
    while (request >= next_) { happen(addresses); }
  }

 private:
  void happen(DeviceAddressSpace& addresses) {
    if (events_.local_memory_grows_before == next_) {
      events_.local_memory_grows_before.reset();
      addresses.grow_local_memory();
    } else {
      ++handles_;
      addresses.create_cublas_handle();
    }
    look_ahead();
  }
  void look_ahead() {
    next_ = std::numeric_limits<std::int64_t>::max();
    if (handles_ < events_.cublas_handle_before.size()) { next_ = events_.cublas_handle_before[handles_]; }
    if (events_.local_memory_grows_before && *events_.local_memory_grows_before <= next_) {
      next_ = *events_.local_memory_grows_before;
    }
  }

  DriverEvents events_;
  std::size_t handles_ = 0;
  std::int64_t next_ = 0;
};

}  // namespace MAXBATCH_ABI_NAMESPACE
}  // namespace maxbatch
