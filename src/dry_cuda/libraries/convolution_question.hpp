#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace maxbatch::dry {

/// Everything that decides which plan cuDNN's heuristics put first for a single convolution, given the card: the question that
/// a convolution table answers with a workspace.
struct ConvolutionQuestion {
  enum class Direction { forward, backward_data, backward_filter };

  Direction direction = Direction::forward;
  std::vector<std::int64_t> input;   ///< [N, C, spatial...]; for backward_data the gradient of the input
  std::vector<std::int64_t> filter;  ///< [K, C / groups, spatial...]
  std::vector<std::int64_t> stride;
  std::vector<std::int64_t> padding;  ///< before; after it is the same, or the convolution has no question
  std::vector<std::int64_t> dilation;
  bool channels_last = false;  ///< never with one channel or one pixel, which lie the same in both layouts
  std::string type;            ///< "float", "half", "bfloat16", "double"
  std::string
      math;  ///< which engines the program lets pass: "tf32", "fp32", or "any" for types that it does not sort by this

  /// One line of a table without its answer, for example:
  ///   forward 16,128,32,32 128,128,3,3 1,1 1,1 1,1 contiguous float fp32
  std::string text() const;

  /// The question of such a line; what stands behind it is not looked at.
  /// Throws: std::invalid_argument, with the line, when it is none.
  static ConvolutionQuestion parse(std::string_view line);

  /// Whether image and filter are a single pixel, as those behind a pool over the whole image: a layout of theirs says nothing,
  /// and on an H200 all 478 such questions that were asked in both got the same answers.
  bool has_one_pixel() const;

  /// Whether all parts are there and fit one another.
  bool is_complete() const;
};

}  // namespace maxbatch::dry
