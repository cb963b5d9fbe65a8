#pragma once

#include <maxbatch/training/trial.hpp>

#include <ATen/core/Tensor.h>

#include <array>
#include <cstdint>
#include <vector>

namespace maxbatch::models {

/// What a detector does to images before it looks at them.
struct ImagePreparation {
  std::int64_t shorter_side = 800;
  std::int64_t longer_side = 1333;  ///< at most
  std::int64_t multiple_of = 32;    ///< sides of the batch
  std::array<double, 3> mean{};
  std::array<double, 3> deviation{};
};

struct ImageBatch {
  at::Tensor images;             ///< [N, 3, H, W], each image in its upper left corner, zeros around it
  std::vector<ImageSize> sizes;  ///< of the resized images
  std::vector<ImageSize> original_sizes;
};

/// Normalises and resizes images [3, H, W], and puts them into one batch.
ImageBatch batch_images(std::vector<at::Tensor> const& images, ImagePreparation const& preparation);

/// Throws: InvalidArgument for sides that no image has.
void set_sides(ImagePreparation& preparation, std::int64_t shorter_side, std::int64_t longer_side);

/// Width, height, width and height of each resized image: [N, 4], of the type and on the device of `like`.
at::Tensor limits_of(ImageBatch const& batch, at::Tensor const& like);

/// Moves boxes [..., 4] from an image of one size to one of another.
at::Tensor resize_boxes(at::Tensor const& boxes, ImageSize from, ImageSize to);

}  // namespace maxbatch::models
