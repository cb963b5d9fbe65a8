#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>

namespace maxbatch::dry {

struct CardProfile;

/// What a kernel takes of a multiprocessor. The defaults are the median of LibTorch's 21,132 kernels for an H200: for kernels
/// that no table knows, since the numbers are in the machine code, whose form is private.
struct KernelResources {
  int registers = 32;    ///< of a thread
  int shared_bytes = 0;  ///< without the dynamic ones
};

/// For which architecture the code is that LibTorch's wheel for CUDA 13 holds and this card would load, 75 to 120: the newest
/// one that is not newer than the card. cub reads it and refuses what the card cannot run.
int loaded_architecture(CardProfile const& card);

/// A table of kernels, as kernel_resources/list_kernel_resources.py writes it.
class KernelResourcesTable {
 public:
  explicit KernelResourcesTable(std::string_view text, int architecture);
  /// By the mangled name; the defaults where the table lacks it.
  [[nodiscard]] KernelResources find(std::string_view name) const;
  [[nodiscard]] std::size_t size() const { return kernels_.size(); }

 private:
  std::unordered_map<std::uint64_t, KernelResources> kernels_;  // by the name's hash
};

/// From the table that the library brings along, for the card of this process.
KernelResources kernel_resources(std::string_view name);

/// Its text. Written at build time from kernel_resources/.
std::string_view built_in_kernel_resources();

}  // namespace maxbatch::dry
