#pragma once

#include <torch/types.h>

#include <cstdint>

namespace maxbatch::models {

struct RoiAlignOptions {
  std::int64_t height = 7;  ///< cells of what is pooled
  std::int64_t width = 7;
  std::int64_t sampling_ratio = 2;  ///< samples of a cell each way; 0 or less: as many as it has pixels, rounded up
  bool aligned =
      false;  ///< whether a pixel's centre lies half a pixel from its corner, as it should have from the start
};

/// Pools a region of a feature map for each of `rois` (arXiv:1703.06870): the mean of bilinear samples in each of
/// height x width cells. Gradients go to `features`.
///
/// features: [N, C, H, W].  rois: [K, 5], index of the image, x1, y1, x2, y2.  spatial_scale: pixels of the map for each of
/// the image.  Returns [K, C, height, width].  Equal to `torchvision.ops.roi_align` of 0.26; a sample whose place is not a
/// number and a region of an image that is not there give 0, where that one reads memory that is not the map's.
/// Synchronises: no.  Throws: InvalidArgument for other shapes, and on CUDA in a build without CUDA kernels.
at::Tensor roi_align(at::Tensor const& features, at::Tensor const& rois, double spatial_scale,
                     RoiAlignOptions const& options = {});

/// Greedy non-maximum suppression: indices int64 of the boxes that remain when, from the best score on, each box removes
/// later ones whose intersection over union with it is above `iou_threshold`; best first, equal scores in their order, a
/// score that is not a number before all others.
///
/// boxes: [K, 4], x1, y1, x2, y2.  scores: [K].  Equal to `torchvision.ops.nms` of 0.26 on the CPU; CUDA gives the same
/// boxes here (there its threshold is rounded to float).  Memory grows with K, not with its square.
/// Synchronises: once on CUDA, for the number of boxes.  Throws: as roi_align.
at::Tensor nms(at::Tensor const& boxes, at::Tensor const& scores, double iou_threshold);

/// The same within each class: boxes of different `classes` ([K], integers) leave each other alone. Equal to
/// `torchvision.ops.batched_nms` of 0.26, which moves classes apart where there are few boxes (1,000 on the CPU, 25,000 on
/// CUDA) and so rounds them.  Synchronises: on CUDA, twice.
at::Tensor batched_nms(at::Tensor const& boxes, at::Tensor const& scores, at::Tensor const& classes,
                       double iou_threshold);

}  // namespace maxbatch::models
