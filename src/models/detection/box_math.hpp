#pragma once

// Arithmetic that the CPU's code and the kernels share. Both are compiled without contraction to fused multiply-adds, so
// that a box which the one suppresses or matches, the other does, too. Knows neither LibTorch nor CUDA's headers.

#include <cstdint>

#ifdef __CUDACC__
#define MAXBATCH_HOST_DEVICE __host__ __device__ inline
#else
#define MAXBATCH_HOST_DEVICE inline
#endif

namespace maxbatch::models {

template <typename T>
struct Box {
  T x1;
  T y1;
  T x2;
  T y2;
};

template <typename T>
MAXBATCH_HOST_DEVICE T area_of(Box<T> const& box) {
  return (box.x2 - box.x1) * (box.y2 - box.y1);
}

/// Intersection over union; not a number where the union is 0 or a coordinate is not a number.
template <typename T>
MAXBATCH_HOST_DEVICE T overlap_of(Box<T> const& a, T area_of_a, Box<T> const& b, T area_of_b) {
  T const left = a.x1 < b.x1 ? b.x1 : a.x1;
  T const top = a.y1 < b.y1 ? b.y1 : a.y1;
  T const right = b.x2 < a.x2 ? b.x2 : a.x2;
  T const bottom = b.y2 < a.y2 ? b.y2 : a.y2;
  T const width = T(0) < right - left ? right - left : T(0);
  T const height = T(0) < bottom - top ? bottom - top : T(0);
  T const both = width * height;
  return both / (area_of_a + area_of_b - both);
}

/// What one sample of RoIAlign takes of a feature map: four neighbours with their weights.
template <typename T>
struct RoiSample {
  std::int32_t low_low;  ///< offsets in a plane of the map, by row and column
  std::int32_t low_high;
  std::int32_t high_low;
  std::int32_t high_high;
  T weight_low_low;  ///< all four are 0 for a sample outside of the map
  T weight_low_high;
  T weight_high_low;
  T weight_high_high;
};

template <typename T>
MAXBATCH_HOST_DEVICE RoiSample<T> sample_at(T y, T x, std::int32_t height, std::int32_t width) {
  // Not "is outside": a coordinate that is not a number samples nothing, and no index is made of it.
  bool const is_inside = y >= T(-1) && y <= T(height) && x >= T(-1) && x <= T(width);
  if (!is_inside) { return {0, 0, 0, 0, T(0), T(0), T(0), T(0)}; }
  y = y <= T(0) ? T(0) : y;
  x = x <= T(0) ? T(0) : x;
  std::int32_t row = static_cast<std::int32_t>(y);
  std::int32_t column = static_cast<std::int32_t>(x);
  std::int32_t next_row = row + 1;
  std::int32_t next_column = column + 1;
  if (row >= height - 1) {
    row = next_row = height - 1;
    y = T(row);
  }
  if (column >= width - 1) {
    column = next_column = width - 1;
    x = T(column);
  }
  T const down = y - T(row);
  T const right = x - T(column);
  T const up = T(1) - down;
  T const left = T(1) - right;
  return {row * width + column,
          row * width + next_column,
          next_row * width + column,
          next_row * width + next_column,
          up * left,
          up * right,
          down * left,
          down * right};
}

/// How RoIAlign cuts a region: pooled cells, of which each has a grid of samples.
template <typename T>
struct RoiGrid {
  T top;
  T left;
  T cell_height;
  T cell_width;
  std::int32_t rows;  ///< of samples in a cell
  std::int32_t columns;

  MAXBATCH_HOST_DEVICE T y_of(std::int32_t cell_row, std::int32_t sample_row) const {
    return top + T(cell_row) * cell_height + (T(sample_row) + T(0.5)) * cell_height / T(rows);
  }
  MAXBATCH_HOST_DEVICE T x_of(std::int32_t cell_column, std::int32_t sample_column) const {
    return left + T(cell_column) * cell_width + (T(sample_column) + T(0.5)) * cell_width / T(columns);
  }
  /// Samples that a cell's value is the mean of; at least 1.
  MAXBATCH_HOST_DEVICE T count() const { return rows * columns > 1 ? T(rows * columns) : T(1); }
};

/// Samples of a cell, one way, where their number follows from the region's size: none for a size that is no number.
template <typename T>
MAXBATCH_HOST_DEVICE std::int32_t adaptive_samples(T cell_size) {
  constexpr std::int32_t most = 1 << 14;  // a cell of more pixels is larger than any feature map
  if (!(cell_size > T(0)) || cell_size - cell_size != T(0)) { return 0; }
  if (cell_size >= T(most)) { return most; }
  std::int32_t const whole = static_cast<std::int32_t>(cell_size);
  return T(whole) < cell_size ? whole + 1 : whole;
}

template <typename T>
MAXBATCH_HOST_DEVICE RoiGrid<T> grid_of(Box<T> const& region, T scale, std::int32_t pooled_height,
                                        std::int32_t pooled_width, std::int32_t sampling_ratio, bool aligned) {
  T const offset = aligned ? T(0.5) : T(0);
  RoiGrid<T> grid{};
  grid.left = region.x1 * scale - offset;
  grid.top = region.y1 * scale - offset;
  T width = region.x2 * scale - offset - grid.left;
  T height = region.y2 * scale - offset - grid.top;
  if (!aligned) {  // a region has one pixel at least, as the first version of RoIAlign had it
    width = width < T(1) ? T(1) : width;
    height = height < T(1) ? T(1) : height;
  }
  grid.cell_height = height / T(pooled_height);
  grid.cell_width = width / T(pooled_width);
  grid.rows = sampling_ratio > 0 ? sampling_ratio : adaptive_samples(grid.cell_height);
  grid.columns = sampling_ratio > 0 ? sampling_ratio : adaptive_samples(grid.cell_width);
  return grid;
}

}  // namespace maxbatch::models
