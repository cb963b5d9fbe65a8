#pragma once

#include <maxbatch/models/detection.hpp>

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

namespace maxbatch::models {

/// Boxes [N, K, 4] at index [N, M] of each image: [N, M, 4].
at::Tensor gather_boxes(at::Tensor const& boxes, at::Tensor const& index);

/// Boxes that torchvision's batched NMS would compare: `boxes` [N, K, 4], of which the classes [N, K] of an image are moved
/// apart where it has so few candidates that torchvision does so, too. Roundings, and so results, are the same then.
at::Tensor moved_as_torchvision_does(at::Tensor const& boxes, at::Tensor const& classes,
                                     at::Tensor const& is_candidate);

/// The best of boxes of some classes in some images, after suppression within each class of each image.
struct ClassCandidates {
  at::Tensor boxes;     ///< [K, 4]
  at::Tensor compared;  ///< [K, 4]: what suppression looks at
  at::Tensor scores;    ///< [K]
  at::Tensor labels;    ///< [K] int64, below `classes`
  at::Tensor images;    ///< [K] int64, below `image_count`
  at::Tensor is_there;  ///< [K] bool: what is not is never a detection; undefined: all are
  std::int64_t classes = 0;
  std::int64_t image_count = 0;
};

/// Synchronises: once.
std::vector<Detections> best_detections(ClassCandidates const& candidates, double nms_threshold,
                                        std::int64_t per_image);

}  // namespace maxbatch::models
