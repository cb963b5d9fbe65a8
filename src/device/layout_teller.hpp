#pragma once

#include <cstdint>

namespace maxbatch::detail {

/// Many numbers as one; order counts. FNV-1a, a number at a time.
class LayoutFingerprint {
 public:
  void mix(std::uint64_t number) { value_ = (value_ ^ number) * 1099511628211U; }
  std::uint64_t value() const { return value_; }

 private:
  std::uint64_t value_ = 14695981039346656037U;
};

/// A trial window whose allocator can be looked into; not every device's can.
class LayoutTeller {
 public:
  virtual ~LayoutTeller() = default;
  /// Of the segments and blocks that the allocator holds, and where. When it is the same after two steps, the allocator
  /// answers all further ones as it answered those in between, as long as they ask for the same.
  virtual std::uint64_t layout_fingerprint() const = 0;
};

}  // namespace maxbatch::detail
