#pragma once

#include <maxbatch/models/detection_operators.hpp>

#include <ATen/core/Tensor.h>

#include <utility>
#include <vector>

namespace maxbatch::models {

/// RoIAlign over the levels of a feature pyramid: each region is taken from the level that suits its size (equation 1 of
/// arXiv:1612.03144 with torchvision's constants), in one kernel for all levels.
///
/// levels: each [N, C, H_i, W_i], of scale 2^-k, 2^-(k + 1), …; `scales` has those.  rois: [K, 5], index of the image and
/// corners in pixels of the image.  Returns [K, C, height, width].  Gradients go to the levels.  Synchronises: no.
at::Tensor pyramid_roi_align(std::vector<at::Tensor> const& levels, at::Tensor const& rois,
                             std::vector<double> const& scales, RoiAlignOptions const& options);

/// The scales of feature maps, as torchvision's MultiScaleRoIAlign infers them: the power of two nearest to the ratio of a
/// map's height to that of the largest image.
std::vector<double> scales_of(std::vector<at::Tensor> const& levels, std::int64_t largest_image_height);

}  // namespace maxbatch::models
