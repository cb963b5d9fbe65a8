#pragma once

// The kernels' launchers: plain pointers, see detection/kernel_launch.hpp.

#include <cstdint>

namespace maxbatch::models {

enum class ElementType { float32, float64, float16, bfloat16 };

struct FrozenNormShape {
  ElementType type = ElementType::float32;
  std::int64_t planes = 0;  ///< N * C
  std::int64_t channels = 0;
  std::int64_t pixels = 0;  ///< H * W
  double epsilon = 0;
  bool relu = false;
};

/// Statistics: [channels], double for float64 and float for others.  x and added: contiguous; added may be null.
int launch_frozen_norm(FrozenNormShape const& shape, void* x, void const* added, void const* weight, void const* bias,
                       void const* mean, void const* variance, void* stream);

/// result: what the forward pass gave; used with relu.  of_x or of_added may be null: not wanted.
int launch_frozen_norm_gradient(FrozenNormShape const& shape, void const* of_result, void const* result,
                                void const* weight, void const* variance, void* of_x, void* of_added, void* stream);

}  // namespace maxbatch::models
