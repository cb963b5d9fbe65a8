#include "class_suppression.hpp"

#include "suppression.hpp"

#include <ATen/ATen.h>

#include <algorithm>
#include <limits>

namespace maxbatch::models {

at::Tensor gather_boxes(at::Tensor const& boxes, at::Tensor const& index) {
  return boxes.gather(1, index.unsqueeze(-1).expand({-1, -1, 4}));
}

at::Tensor moved_as_torchvision_does(at::Tensor const& boxes, at::Tensor const& classes,
                                     at::Tensor const& is_candidate) {
  std::int64_t const few = boxes.is_cuda() ? 25'000 : 1000;  // numel() of 100,000 and 4,000 there
  auto const largest =
      boxes.amax(-1).masked_fill(is_candidate.logical_not(), -std::numeric_limits<double>::infinity()).amax(1, true);
  auto step = largest + 1;
  if (boxes.size(1) > few) { step.masked_fill_(is_candidate.sum(1, /*keepdim=*/true) > few, 0); }
  return boxes + (classes.to(boxes.scalar_type()) * step).unsqueeze(-1);
}

std::vector<Detections> best_detections(ClassCandidates const& candidates, double nms_threshold,
                                        std::int64_t per_image) {
  auto scores = candidates.scores;
  auto segments = candidates.images.mul(candidates.classes).add_(candidates.labels);
  if (candidates.is_there.defined()) {
    auto const is_missing = candidates.is_there.logical_not();
    scores = scores.masked_fill(is_missing, -1);
    segments.masked_fill_(is_missing, -1);
  }
  auto const order = at::argsort(scores, /*stable=*/true, 0, /*descending=*/true);
  auto const keep = suppress(candidates.compared.unsqueeze(0), order.unsqueeze(0), segments.to(at::kInt).unsqueeze(0),
                             candidates.image_count * candidates.classes, nms_threshold)
                        .squeeze(0);
  // Image by image, best first; what was removed goes to the end.
  auto const image_of =
      candidates.images.index_select(0, order).masked_fill_(keep.logical_not(), candidates.image_count);
  auto const by_image = order.index_select(0, at::argsort(image_of, /*stable=*/true, 0, /*descending=*/false));
  auto const counts =
      (image_of.unsqueeze(0) == at::arange(candidates.image_count, image_of.options()).unsqueeze(1)).sum(1).cpu();

  std::vector<Detections> detections;
  std::int64_t start = 0;
  for (std::int64_t image = 0; image < candidates.image_count; ++image) {
    auto const count = counts.const_data_ptr<std::int64_t>()[image];
    auto const best = by_image.narrow(0, start, std::min(count, per_image));
    detections.push_back({candidates.boxes.index_select(0, best), candidates.labels.index_select(0, best),
                          candidates.scores.index_select(0, best)});
    start += count;
  }
  return detections;
}

}  // namespace maxbatch::models
