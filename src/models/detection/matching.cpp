#include "matching.hpp"

#include "../cuda_kernels.hpp"
#include "box_math.hpp"
#include "kernel_launch.hpp"

#include <ATen/Dispatch.h>
#include <ATen/Functions.h>
#include <ATen/Parallel.h>

#include <algorithm>

namespace maxbatch::models {
namespace {

constexpr std::int64_t kBoxesAtOnce = 4096;

template <typename T>
Box<T> box_at(T const* boxes, std::int64_t index) {
  auto const* const corners = boxes + 4 * index;
  return {corners[0], corners[1], corners[2], corners[3]};
}

/// One image. `begin` and `end`: its true boxes.
template <typename T>
void match_image(T const* truth, std::int64_t begin, std::int64_t end, T const* boxes, std::int64_t count,
                 MatchThresholds const& thresholds, std::int64_t* matches) {
  // As a comparison of a tensor with a number has them.
  auto const low = static_cast<T>(thresholds.low);
  auto const high = static_cast<T>(thresholds.high);
  std::vector<T> truth_areas;
  for (auto g = begin; g < end; ++g) { truth_areas.push_back(area_of(box_at(truth, g))); }
  auto const overlap = [&](std::int64_t g, Box<T> const& box, T area) {
    return overlap_of(box_at(truth, g), truth_areas[static_cast<std::size_t>(g - begin)], box, area);
  };

  std::vector<T> largest(static_cast<std::size_t>(count), T(-1));
  at::parallel_for(0, count, kBoxesAtOnce, [&](std::int64_t from, std::int64_t to) {
    for (auto i = from; i < to; ++i) {
      auto const box = box_at(boxes, i);
      auto const area = area_of(box);
      auto& most = largest[static_cast<std::size_t>(i)];
      matches[i] = begin;
      for (auto g = begin; g < end; ++g) {
        auto const found = overlap(g, box, area);
        if (found > most) {
          most = found;
          matches[i] = g;
        }
      }
    }
  });

  std::vector<T> best(static_cast<std::size_t>(end - begin), T(0));
  if (thresholds.low_quality_matches) {
    at::parallel_for(begin, end, 1, [&](std::int64_t from, std::int64_t to) {
      for (auto g = from; g < to; ++g) {
        auto& most = best[static_cast<std::size_t>(g - begin)];
        for (std::int64_t i = 0; i < count; ++i) {
          auto const box = box_at(boxes, i);
          most = std::max(most, overlap(g, box, area_of(box)));
        }
      }
    });
  }
  at::parallel_for(0, count, kBoxesAtOnce, [&](std::int64_t from, std::int64_t to) {
    for (auto i = from; i < to; ++i) {
      auto const most = largest[static_cast<std::size_t>(i)];
      if (!(most < high)) { continue; }
      auto is_best = false;
      if (thresholds.low_quality_matches) {
        auto const box = box_at(boxes, i);
        auto const area = area_of(box);
        for (auto g = begin; g < end && !is_best; ++g) {
          is_best = overlap(g, box, area) == best[static_cast<std::size_t>(g - begin)];
        }
      }
      if (!is_best) { matches[i] = most < low ? kBelowThreshold : kBetweenThresholds; }
    }
  });
}

}  // namespace

TruthBoxes TruthBoxes::of(std::vector<at::Tensor> const& boxes, c10::Device device, c10::ScalarType dtype) {
  TruthBoxes truth;
  std::vector<at::Tensor> parts;
  std::vector<std::int32_t> starts = {0};
  for (auto const& of_image : boxes) {
    truth.counts.push_back(of_image.size(0));
    starts.push_back(starts.back() + static_cast<std::int32_t>(of_image.size(0)));
    // Not waited for: what is copied from pageable memory has been read when the call returns.
    parts.push_back(of_image.to(device, dtype, /*non_blocking=*/true));
  }
  parts.push_back(at::zeros({1, 4}, at::device(device).dtype(dtype)));
  truth.boxes = at::cat(parts);
  truth.starts = at::tensor(starts, at::kInt).to(device, /*non_blocking=*/true);
  return truth;
}

at::Tensor match_boxes(TruthBoxes const& truth, at::Tensor const& boxes, MatchThresholds const& thresholds) {
  auto const images = static_cast<std::int64_t>(truth.counts.size());
  auto const is_shared = boxes.dim() == 2;
  TORCH_CHECK(boxes.size(-1) == 4 && (is_shared || (boxes.dim() == 3 && boxes.size(0) == images)),
              "match_boxes: boxes ", boxes.sizes(), " are not those of ", images, " images");
  TORCH_CHECK(boxes.scalar_type() == truth.boxes.scalar_type(), "match_boxes: boxes of type ", boxes.scalar_type(),
              " and true boxes of type ", truth.boxes.scalar_type());
  auto const count = boxes.size(-2);
  auto const flat = boxes.contiguous();
  auto const stride = is_shared ? 0 : count * 4;
  auto matches = at::empty({images, count}, boxes.options().dtype(at::kLong));
  if (matches.numel() == 0) { return matches; }

  if (boxes.is_cuda()) {
    with_cuda_kernels("matching of boxes", boxes, [&](auto stream) {
      auto const best =
          thresholds.low_quality_matches ? at::zeros({truth.boxes.size(0)}, boxes.options()) : at::Tensor();
      AT_DISPATCH_FLOATING_TYPES(boxes.scalar_type(), "match_boxes", [&] {
        check_launch(launch_matching<scalar_t>(
            truth.boxes.const_data_ptr<scalar_t>(), truth.starts.const_data_ptr<std::int32_t>(),
            flat.const_data_ptr<scalar_t>(), stride, images, count, thresholds.low, thresholds.high,
            best.defined() ? best.data_ptr<scalar_t>() : nullptr, matches.data_ptr<std::int64_t>(), stream));
      });
    });
    return matches;
  }
  AT_DISPATCH_FLOATING_TYPES(boxes.scalar_type(), "match_boxes", [&] {
    std::int64_t begin = 0;
    for (std::int64_t image = 0; image < images; ++image) {
      auto const end = begin + truth.counts[static_cast<std::size_t>(image)];
      auto* const of_image = matches.data_ptr<std::int64_t>() + image * count;
      if (begin == end) {
        std::fill_n(of_image, count, kBelowThreshold);
      } else {
        match_image(truth.boxes.const_data_ptr<scalar_t>(), begin, end,
                    flat.const_data_ptr<scalar_t>() + image * stride, count, thresholds, of_image);
      }
      begin = end;
    }
  });
  return matches;
}

}  // namespace maxbatch::models
