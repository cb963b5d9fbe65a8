#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

namespace maxbatch::models {

/// Values in the result of match_boxes that are no box.
constexpr std::int64_t kBelowThreshold = -1;
constexpr std::int64_t kBetweenThresholds = -2;

/// True boxes of a batch.
struct TruthBoxes {
  at::Tensor boxes;                  ///< [G + 1, 4]: those of all images, and one of zeros that stands for none
  std::vector<std::int64_t> counts;  ///< of each image; their sum is G
  at::Tensor starts;                 ///< [N + 1] int32, on the boxes' device: where each image's begin

  static TruthBoxes of(std::vector<at::Tensor> const& boxes, c10::Device device, c10::ScalarType dtype);
};

struct MatchThresholds {
  double low = 0.5;   ///< an overlap below it is none
  double high = 0.5;  ///< one from it on is a match
  /// The boxes with which a true box overlaps most match what they overlap most with, whatever the thresholds say.
  bool low_quality_matches = false;
};

/// Which true box of its image each box matches: the one of largest intersection over union, the first of equals.
/// boxes: [N, K, 4], or [K, 4] for all images.  Returns [N, K] int64: an index into `truth.boxes`, kBelowThreshold or
/// kBetweenThresholds. No table of overlaps is made: memory does not grow with the number of true boxes.
/// Semantics: torchvision 0.26's Matcher.  Synchronises: no.
at::Tensor match_boxes(TruthBoxes const& truth, at::Tensor const& boxes, MatchThresholds const& thresholds);

}  // namespace maxbatch::models
