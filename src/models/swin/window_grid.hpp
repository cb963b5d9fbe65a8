#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <cstdint>

namespace maxbatch::models {

/// How a feature map is cut into windows. Pairs are (height, width), in tokens.
struct WindowGrid {
  using Pair = std::array<std::int64_t, 2>;

  /// Of a block on a map of `size`: windows shifted by half of their side, if `shifted`, in each direction in which the
  /// map has more than one.
  static WindowGrid of(Pair size, Pair window, bool shifted);

  Pair size{};    ///< of the map
  Pair padded{};  ///< of the map, filled up to whole windows
  Pair window{};
  Pair shift{};

  std::int64_t tokens_in_window() const { return window[0] * window[1]; }
  bool is_shifted() const { return shift[0] != 0 || shift[1] != 0; }
  bool is_padded() const { return padded != size; }
};

/// Tables of a grid. Defined for shifted grids only, but for `position`.
struct WindowTables {
  at::Tensor position;  ///< [tokens, tokens] flat: which row of the bias table belongs to a pair of a window's tokens
  at::Tensor mask;      ///< [windows, tokens, tokens]: 0, or -100 between tokens that only the shift made neighbours
  at::Tensor roll;      ///< [H * W]: which token comes to each place when the map is shifted
  at::Tensor unroll;    ///< its inverse
};

/// For windows of this shape.
at::Tensor relative_positions(WindowGrid::Pair window, c10::Device device);

/// Fills in `mask`, `roll` and `unroll`, by operations on the device alone.
void fill_shift_tables(WindowTables& tables, WindowGrid const& grid, c10::Device device);

}  // namespace maxbatch::models
