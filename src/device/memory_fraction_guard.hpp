#pragma once

#include <maxbatch/bytes.hpp>

#include <c10/core/Device.h>

#include <optional>

namespace maxbatch::detail {

/// What the caching allocator may reserve on a device at most, under the process's own memory fraction; none: no cap.
/// Synchronises: no.
std::optional<Bytes> allocator_limit(c10::DeviceIndex device);

/// Caps what the caching allocator may reserve on one device, exact to the byte, until destruction; then what was there
/// before. A cap of the device's memory or more is none.
/// LibTorch takes a fraction and cuts `fraction * total` off to whole bytes, hence half a byte is added.
/// Threads: one guard per device at a time.
class MemoryFractionGuard {
 public:
  /// None: leaves the process's own fraction alone.
  MemoryFractionGuard(c10::DeviceIndex device, std::optional<Bytes> limit);
  ~MemoryFractionGuard();
  MemoryFractionGuard(MemoryFractionGuard const&) = delete;
  MemoryFractionGuard& operator=(MemoryFractionGuard const&) = delete;

 private:
  c10::DeviceIndex device_;
  bool changed_;
  std::optional<Bytes> before_;
};

}  // namespace maxbatch::detail
