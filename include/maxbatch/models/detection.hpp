#pragma once

#include <maxbatch/training/trial.hpp>

#include <torch/types.h>

#include <cstdint>

namespace maxbatch::models {

/// The objects of one image: what a detector is trained towards. Boxes that are on the CPU are checked at no cost and copied
/// without waiting; of boxes on a device only the shapes are looked at, since looking at values would wait for it.
struct DetectionTarget {
  at::Tensor boxes;   ///< [G, 4]: x1, y1, x2, y2 in pixels of the image as it was given, x1 < x2, y1 < y2; G may be 0
  at::Tensor labels;  ///< [G] int64, from 1: 0 is the background
};

/// What a detector found in one image, best first.
struct Detections {
  at::Tensor boxes;   ///< [D, 4]: x1, y1, x2, y2 in pixels of the image as it was given
  at::Tensor labels;  ///< [D] int64
  at::Tensor scores;  ///< [D]
};

/// What a search trains detectors with. Their memory depends on sizes and orientations; of the number of objects on little
/// more than the targets themselves.
struct DetectionImages {
  ImageSize size{800, 1333};
  /// Every second image is turned, so that a batch of two or more is padded to the longer side both ways: the worst that
  /// images of this size can do. Without it all are alike.
  bool both_orientations = true;
  std::int64_t boxes = 100;  ///< of an image
};

}  // namespace maxbatch::models
