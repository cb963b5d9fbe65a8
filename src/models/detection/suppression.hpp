#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace maxbatch::models {

/// Greedy non-maximum suppression of many sets of boxes at once: from the best box of a segment on, each box that is kept
/// removes the later ones of its segment whose intersection over union with it is above `threshold`.
///
/// boxes: [R, K, 4].  order: [R, K] int64, the boxes of a row from the best on.  segments: [R, K] int32, by box: its
/// segment in [0, segment_count), or a negative number: no candidate.  Returns [R, K] bool, by place in `order`: kept.
/// Needs 4 bytes of scratch a box on CUDA, whatever overlaps.  Synchronises: no.
at::Tensor suppress(at::Tensor const& boxes, at::Tensor const& order, at::Tensor const& segments,
                    std::int64_t segment_count, double threshold);

}  // namespace maxbatch::models
