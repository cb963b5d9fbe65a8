#pragma once

#include <maxbatch/training/trial.hpp>

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

namespace maxbatch::models {

/// Boxes around each pixel of the maps of a feature pyramid.
class AnchorGrid {
 public:
  /// sizes: sides of squares, for each level; each comes in all ratios of height to width.
  AnchorGrid(std::vector<std::vector<std::int64_t>> const& sizes, std::vector<double> const& ratios);

  /// Boxes of a pixel, the same on every level.
  std::int64_t per_pixel() const { return per_pixel_; }

  /// [A, 4] on the device: level by level, row by row, pixel by pixel.  Synchronises: no.
  /// maps: of the levels.  image: height and width of the batch of images.  dtype: float or double.
  at::Tensor over(std::vector<at::Tensor> const& maps, ImageSize image, c10::ScalarType dtype) const;

 private:
  std::vector<at::Tensor> around_zero_;  ///< [per_pixel, 4] for each level
  std::int64_t per_pixel_;
};

}  // namespace maxbatch::models
