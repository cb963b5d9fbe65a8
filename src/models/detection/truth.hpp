#pragma once

#include "matching.hpp"
#include <maxbatch/models/detection.hpp>
#include <maxbatch/training/trial.hpp>

#include <ATen/core/Tensor.h>

#include <vector>

namespace maxbatch::models {

/// The true objects of a batch, on the device, in pixels of the resized images.
struct Truth {
  TruthBoxes boxes;   ///< see there: one more box stands for none
  at::Tensor labels;  ///< [G + 1] int64, 0 for the last
  at::Tensor padded;  ///< [N, most] int64, into the two above: those of each image, then the one that stands for none
};

struct LabelRange {
  std::int64_t first = 0;
  std::int64_t last = 0;
};

/// Throws: InvalidArgument for targets that are none, saying of which image and why. Values are looked at where they are on
/// the CPU.  Synchronises: no.
Truth prepare_truth(std::vector<DetectionTarget> const& targets, std::vector<ImageSize> const& from,
                    std::vector<ImageSize> const& to, LabelRange range, at::Tensor const& images);

}  // namespace maxbatch::models
