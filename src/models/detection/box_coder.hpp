#pragma once

#include <ATen/core/Tensor.h>

#include <array>

namespace maxbatch::models {

/// Boxes as differences from others (arXiv:1311.2524, appendix C), in torchvision's order of operations. Shapes
/// [..., 4]; those of `from` and the other argument broadcast.
struct BoxCoder {
  std::array<double, 4> weights = {1, 1, 1, 1};  ///< of x, y, width and height

  /// What would turn `from` into `boxes`. Not a number, or infinite, where a box has no area.
  at::Tensor encode(at::Tensor const& boxes, at::Tensor const& from) const;
  at::Tensor decode(at::Tensor const& codes, at::Tensor const& from) const;
};

/// Cuts boxes [N, ..., 4] at the borders of their images. limits: [N, 4], width, height, width, height.
at::Tensor clip_boxes(at::Tensor const& boxes, at::Tensor const& limits);

/// Whether a box [..., 4] is at least so wide and so high.
at::Tensor is_large(at::Tensor const& boxes, double side);

}  // namespace maxbatch::models
