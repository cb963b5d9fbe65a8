#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace maxbatch::dry {

/// Kernels that can end in a trap that says where: CUDA_KERNEL_ASSERT and printf. The driver prepares more for these
/// (memory/driver_pieces.hpp). A table as kernel_resources/list_asserting_kernels.py writes it.
class AssertingKernels {
 public:
  explicit AssertingKernels(std::string_view text);
  /// By the mangled name.
  [[nodiscard]] bool hold(std::string_view name) const;
  [[nodiscard]] std::size_t size() const { return hashes_.size(); }

 private:
  std::vector<std::uint64_t> hashes_;  // ascending
};

/// In the table that the library brings along: LibTorch's kernels.
bool kernel_asserts(std::string_view name);

/// Its text. Written at build time from kernel_resources/.
std::string_view built_in_asserting_kernels();

}  // namespace maxbatch::dry
