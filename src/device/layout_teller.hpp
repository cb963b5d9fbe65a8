#pragma once

#include <cstdint>

namespace maxbatch::detail {

/// A trial window whose allocator can be looked into; not every device's can.
class LayoutTeller {
 public:
  virtual ~LayoutTeller() = default;
  /// Of the segments and blocks that the allocator holds, and where. When it is the same after two steps, the allocator
  /// answers all further ones as it answered those in between, as long as they ask for the same.
  virtual std::uint64_t layout_fingerprint() const = 0;
};

}  // namespace maxbatch::detail
