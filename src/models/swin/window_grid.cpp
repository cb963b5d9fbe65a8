#include "window_grid.hpp"

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/zeros.h>

namespace maxbatch::models {
namespace {

/// Which of three bands along one side a token of the shifted map is in: those that stayed together, the rest of the last
/// full window, and what came around the edge.
at::Tensor bands(std::int64_t length, std::int64_t window, std::int64_t shift, at::TensorOptions const& options) {
  if (shift == 0) { return at::zeros({length}, options); }
  auto const place = at::arange(length, options);
  return place.ge(length - window).to(at::kLong) + place.ge(length - shift).to(at::kLong);
}

at::Tensor shifted_places(std::int64_t length, std::int64_t by, at::TensorOptions const& options) {
  return at::arange(length, options).add_(by + length).remainder_(length);
}

at::Tensor rolled(WindowGrid const& grid, std::int64_t sign, at::TensorOptions const& options) {
  auto const rows = shifted_places(grid.size[0], sign * grid.shift[0], options);
  auto const columns = shifted_places(grid.size[1], sign * grid.shift[1], options);
  return (rows.unsqueeze(1) * grid.size[1] + columns).view(-1);
}

}  // namespace

WindowGrid WindowGrid::of(Pair size, Pair window, bool shifted) {
  WindowGrid grid;
  grid.size = size;
  grid.window = window;
  for (std::size_t side = 0; side < 2; ++side) {
    grid.padded[side] = (size[side] + window[side] - 1) / window[side] * window[side];
    grid.shift[side] = shifted && size[side] > window[side] ? window[side] / 2 : 0;
  }
  return grid;
}

at::Tensor relative_positions(WindowGrid::Pair window, c10::Device device) {
  auto const options = at::TensorOptions().dtype(at::kLong).device(device);
  auto const place = at::arange(window[0] * window[1], options);
  auto const row = place.div(window[1], "floor");
  auto const column = place.remainder(window[1]);
  auto const differences = [](at::Tensor const& of) { return of.unsqueeze(1) - of.unsqueeze(0); };
  return (differences(row) + (window[0] - 1)) * (2 * window[1] - 1) + (differences(column) + (window[1] - 1));
}

void fill_shift_tables(WindowTables& tables, WindowGrid const& grid, c10::Device device) {
  auto const options = at::TensorOptions().dtype(at::kLong).device(device);
  tables.roll = rolled(grid, +1, options);
  tables.unroll = rolled(grid, -1, options);

  auto const [height, width] = grid.padded;
  auto const [window_height, window_width] = grid.window;
  auto const band = bands(height, window_height, grid.shift[0], options).unsqueeze(1) * 3 +
                    bands(width, window_width, grid.shift[1], options);
  auto const in_windows = band.view({height / window_height, window_height, width / window_width, window_width})
                              .permute({0, 2, 1, 3})
                              .reshape({-1, grid.tokens_in_window()});
  auto const apart = in_windows.unsqueeze(1).ne(in_windows.unsqueeze(2));
  tables.mask = at::zeros(apart.sizes(), options.dtype(at::kFloat)).masked_fill_(apart, -100.0);
}

}  // namespace maxbatch::models
