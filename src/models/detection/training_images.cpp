#include "training_images.hpp"

#include <maxbatch/search/errors.hpp>

#include <ATen/ATen.h>

#include <cmath>
#include <string>

namespace maxbatch::models {
namespace {

constexpr double kSmallestBox = 4;

/// Sides spread evenly over their logarithms, anywhere in the image.
at::Tensor draw_boxes(ImageSize size, std::int64_t count) {
  auto const image = at::tensor({static_cast<double>(size.width), static_cast<double>(size.height)}, at::kFloat);
  auto const sides = kSmallestBox * at::pow(image / kSmallestBox, at::rand({count, 2}));
  auto const corners = at::rand({count, 2}) * (image - sides);
  return at::cat({corners, corners + sides}, 1);
}

}  // namespace

void check_detection_images(DetectionImages const& images) {
  if (images.boxes < 0) {
    throw InvalidArgument("no image has " + std::to_string(images.boxes) + " boxes: give 0 or more");
  }
  if (static_cast<double>(images.size.height) <= kSmallestBox ||
      static_cast<double>(images.size.width) <= kSmallestBox) {
    throw InvalidArgument("images of " + std::to_string(images.size.height) + "x" + std::to_string(images.size.width) +
                          " pixels have no room for objects: each side needs more than 4");
  }
}

DetectionBatch draw_detection_batch(Trial const& trial, DetectionImages const& images, std::int64_t classes) {
  check_detection_images(images);
  DetectionBatch batch;
  for (std::int64_t i = 0; i < trial.batch_size(); ++i) {
    auto const size =
        images.both_orientations && i % 2 == 1 ? ImageSize{images.size.width, images.size.height} : images.size;
    batch.images.push_back(at::rand({3, size.height, size.width}, at::device(trial.device()).dtype(at::kFloat)));
    batch.targets.push_back({draw_boxes(size, images.boxes), at::randint(1, classes, {images.boxes}, at::kLong)});
  }
  return batch;
}

}  // namespace maxbatch::models
