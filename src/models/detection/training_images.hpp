#pragma once

#include <maxbatch/models/detection.hpp>
#include <maxbatch/training/trial.hpp>

#include <vector>

namespace maxbatch::models {

/// Images and targets of one micro-batch.
struct DetectionBatch {
  std::vector<at::Tensor> images;
  std::vector<DetectionTarget> targets;
};

/// Images on the trial's device, and targets on the CPU, where they are checked without waiting for a device: boxes of all
/// sizes from 4 pixels on, with labels below `classes`.  Throws: InvalidArgument for options that make no images.
DetectionBatch draw_detection_batch(Trial const& trial, DetectionImages const& images, std::int64_t classes);

/// Throws: InvalidArgument for options that make no images.
void check_detection_images(DetectionImages const& images);

}  // namespace maxbatch::models
