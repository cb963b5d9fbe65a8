#pragma once

// What the kernels' launchers take and give: plain pointers, so that nvcc reads no header of LibTorch, and no type of CUDA,
// so that a build without CUDA reads them, too. A stream is a cudaStream_t, and what comes back a cudaError_t.

#include <cstdint>

namespace maxbatch::models {

constexpr int kMostPyramidLevels = 8;

/// Feature maps of one batch at several scales. Template argument: element type, const for reading.
template <typename T>
struct RoiPyramid {
  T* maps[kMostPyramidLevels] = {};  ///< each [N, channels, height, width], contiguous; null: not wanted
  std::int32_t heights[kMostPyramidLevels] = {};
  std::int32_t widths[kMostPyramidLevels] = {};
  double scales[kMostPyramidLevels] = {};
  std::int32_t levels = 0;
  std::int32_t first_level = 0;  ///< of the first map: its scale is 2^-first_level
  std::int64_t images = 0;
  std::int64_t channels = 0;
};

struct RoiCells {
  std::int32_t pooled_height = 0;
  std::int32_t pooled_width = 0;
  std::int32_t sampling_ratio = 0;
  bool aligned = false;
};

/// rois: [count, 5].  pooled: [count, channels, pooled_height, pooled_width].
template <typename T>
int launch_roi_align(RoiPyramid<T const> const& pyramid, RoiCells const& cells, T const* rois, std::int64_t count,
                     T* pooled, void* stream);

/// Adds to the maps of `gradients`, which the caller has filled with zeros.
template <typename T>
int launch_roi_align_backward(RoiPyramid<T> const& gradients, RoiCells const& cells, T const* rois, std::int64_t count,
                              T const* of_pooled, void* stream);

/// See suppress() in suppression.hpp. scratch: [rows, count].
template <typename T>
int launch_suppression(T const* boxes, std::int64_t const* order, std::int32_t const* segments, std::int64_t rows,
                       std::int32_t count, std::int32_t segment_count, double threshold, std::int32_t* scratch,
                       bool* keep, void* stream);

/// See match_boxes() in matching.hpp. starts: [rows + 1].  best: one for each true box, filled with zeros; null without
/// low-quality matches.  boxes: [rows, count, 4], or [count, 4] for all rows (row_stride 0).
template <typename T>
int launch_matching(T const* truth, std::int32_t const* starts, T const* boxes, std::int64_t row_stride,
                    std::int64_t rows, std::int64_t count, double low, double high, T* best, std::int64_t* matches,
                    void* stream);

/// See sigmoid_focal_loss() in focal_loss.hpp. sums: [images, blocks].
template <typename T>
int launch_focal_loss(T const* logits, std::int64_t const* labels, std::int64_t images, std::int64_t anchors,
                      std::int32_t classes, std::int64_t blocks, T* sums, void* stream);

/// of_images: [images], the gradient of each image's loss.  blocks: of an image.
template <typename T>
int launch_focal_gradient(T const* logits, std::int64_t const* labels, T const* of_images, std::int64_t images,
                          std::int64_t anchors, std::int32_t classes, std::int64_t blocks, T* gradient, void* stream);

}  // namespace maxbatch::models
