#include "suppression.hpp"

#include "../cuda_kernels.hpp"
#include "box_math.hpp"
#include "kernel_launch.hpp"

#include <ATen/Dispatch.h>
#include <ATen/Functions.h>
#include <ATen/Parallel.h>

#include <limits>
#include <vector>

namespace maxbatch::models {
namespace {

/// The boxes of one segment, from the best on: places in the order, beside copies of the boxes.
template <typename T>
struct Segment {
  std::vector<std::int64_t> places;
  std::vector<Box<T>> boxes;
};

template <typename T>
void suppress_segment(Segment<T> const& segment, double threshold, bool* keep) {
  auto const count = segment.boxes.size();
  std::vector<T> areas(count);
  std::vector<char> removed(count, 0);
  for (std::size_t i = 0; i < count; ++i) { areas[i] = area_of(segment.boxes[i]); }
  for (std::size_t i = 0; i < count; ++i) {
    if (removed[i] != 0) { continue; }
    keep[segment.places[i]] = true;
    for (auto j = i + 1; j < count; ++j) {
      auto const overlap = overlap_of(segment.boxes[i], areas[i], segment.boxes[j], areas[j]);
      removed[j] = static_cast<char>(removed[j] | static_cast<char>(static_cast<double>(overlap) > threshold));
    }
  }
}

template <typename T>
void suppress_row(T const* boxes, std::int64_t const* order, std::int32_t const* segments, std::int64_t count,
                  std::int64_t segment_count, double threshold, bool* keep) {
  std::vector<Segment<T>> parts(static_cast<std::size_t>(segment_count));
  for (std::int64_t place = 0; place < count; ++place) {
    auto const box = order[place];
    auto const segment = segments[box];
    if (segment < 0) { continue; }
    auto& part = parts[static_cast<std::size_t>(segment)];
    part.places.push_back(place);
    auto const* const corners = boxes + 4 * box;
    part.boxes.push_back({corners[0], corners[1], corners[2], corners[3]});
  }
  at::parallel_for(0, segment_count, 1, [&](std::int64_t begin, std::int64_t end) {
    for (auto i = begin; i < end; ++i) { suppress_segment(parts[static_cast<std::size_t>(i)], threshold, keep); }
  });
}

}  // namespace

at::Tensor suppress(at::Tensor const& boxes, at::Tensor const& order, at::Tensor const& segments,
                    std::int64_t segment_count, double threshold) {
  auto const rows = order.size(0);
  auto const count = order.size(1);
  TORCH_CHECK(boxes.dim() == 3 && boxes.size(0) == rows && boxes.size(1) == count && boxes.size(2) == 4 &&
                  segments.sizes() == order.sizes(),
              "suppress: boxes ", boxes.sizes(), ", order ", order.sizes(), " and segments ", segments.sizes(),
              " do not belong together");
  TORCH_CHECK(count <= std::numeric_limits<std::int32_t>::max(), "suppress: ", count, " boxes in a row are too many");
  auto const flat_boxes = boxes.contiguous();
  auto const flat_order = order.contiguous();
  auto const flat_segments = segments.to(at::kInt).contiguous();
  auto keep = at::zeros(order.sizes(), order.options().dtype(at::kBool));
  if (keep.numel() == 0 || segment_count == 0) { return keep; }

  if (boxes.is_cuda()) {
    with_cuda_kernels("non-maximum suppression", boxes, [&](auto stream) {
      auto const scratch = at::empty(order.sizes(), order.options().dtype(at::kInt));
      AT_DISPATCH_FLOATING_TYPES(boxes.scalar_type(), "suppress", [&] {
        check_launch(launch_suppression<scalar_t>(
            flat_boxes.const_data_ptr<scalar_t>(), flat_order.const_data_ptr<std::int64_t>(),
            flat_segments.const_data_ptr<std::int32_t>(), rows, static_cast<std::int32_t>(count),
            static_cast<std::int32_t>(segment_count), threshold, scratch.data_ptr<std::int32_t>(),
            keep.data_ptr<bool>(), stream));
      });
    });
    return keep;
  }
  AT_DISPATCH_FLOATING_TYPES(boxes.scalar_type(), "suppress", [&] {
    for (std::int64_t row = 0; row < rows; ++row) {
      suppress_row(flat_boxes.const_data_ptr<scalar_t>() + 4 * row * count,
                   flat_order.const_data_ptr<std::int64_t>() + row * count,
                   flat_segments.const_data_ptr<std::int32_t>() + row * count, count, segment_count, threshold,
                   keep.data_ptr<bool>() + row * count);
    }
  });
  return keep;
}

}  // namespace maxbatch::models
