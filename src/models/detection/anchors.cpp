#include "anchors.hpp"

#include <ATen/ATen.h>

namespace maxbatch::models {

AnchorGrid::AnchorGrid(std::vector<std::vector<std::int64_t>> const& sizes, std::vector<double> const& ratios) {
  auto const height_ratios = at::sqrt(at::tensor(ratios, at::kFloat));
  auto const width_ratios = 1 / height_ratios;
  for (auto const& of_level : sizes) {
    auto const sides = at::tensor(of_level, at::kLong).to(at::kFloat);
    auto const widths = (width_ratios.unsqueeze(1) * sides.unsqueeze(0)).flatten();
    auto const heights = (height_ratios.unsqueeze(1) * sides.unsqueeze(0)).flatten();
    around_zero_.push_back((at::stack({-widths, -heights, widths, heights}, 1) / 2).round());
  }
  per_pixel_ = around_zero_.front().size(0);
}

at::Tensor AnchorGrid::over(std::vector<at::Tensor> const& maps, ImageSize image, c10::ScalarType dtype) const {
  TORCH_CHECK(maps.size() == around_zero_.size(), "anchors of ", around_zero_.size(), " levels for ", maps.size(),
              " maps");
  auto const options = at::device(maps.front().device()).dtype(dtype);
  std::int64_t total = 0;
  for (auto const& map : maps) { total += map.size(2) * map.size(3) * per_pixel_; }
  auto const anchors = at::empty({total, 4}, options);
  auto const around_zero = at::cat(around_zero_).to(options.device(), dtype, /*non_blocking=*/true);
  std::int64_t offset = 0;
  for (std::size_t level = 0; level < maps.size(); ++level) {
    auto const rows = maps[level].size(2);
    auto const columns = maps[level].size(3);
    auto const count = rows * columns * per_pixel_;
    auto const first = static_cast<std::int64_t>(level) * per_pixel_;
    auto const of_level = around_zero.narrow(0, first, per_pixel_).view({per_pixel_, 2, 2});
    auto const places = anchors.narrow(0, offset, count).view({rows, columns, per_pixel_, 2, 2});
    auto const fill = [&](std::int64_t axis, std::int64_t pixels, std::int64_t stride, at::IntArrayRef shape) {
      auto place = places.select(-1, axis);
      at::add_out(place, of_level.select(-1, axis).expand(place.sizes()),
                  at::arange(0, pixels * stride, stride, options).view(shape));
    };
    fill(0, columns, image.width / columns, {1, columns, 1, 1});
    fill(1, rows, image.height / rows, {rows, 1, 1, 1});
    offset += count;
  }
  return anchors;
}

}  // namespace maxbatch::models
