#pragma once

#include <cstdint>
#include <string_view>

namespace maxbatch::dry {

/// FNV-1a over a kernel's mangled name: how the tables of LibTorch's kernels name them (kernel_resources/kernel_names.py).
inline std::uint64_t kernel_name_hash(std::string_view name) {
  std::uint64_t value = 0xcbf29ce484222325;
  for (auto const letter : name) { value = (value ^ static_cast<unsigned char>(letter)) * 0x100000001b3; }
  return value;
}

}  // namespace maxbatch::dry
