#include "image_batch.hpp"

#include <maxbatch/search/errors.hpp>

#include <torch/torch.h>

#include <algorithm>
#include <cmath>
#include <string>

namespace maxbatch::models {
namespace {

/// As Python's interpolate: the scale and its product with each side in double, rounded down.
ImageSize resized(ImageSize size, ImagePreparation const& preparation) {
  auto const shorter = static_cast<double>(std::min(size.height, size.width));
  auto const longer = static_cast<double>(std::max(size.height, size.width));
  auto const scale = std::min(static_cast<double>(preparation.shorter_side) / shorter,
                              static_cast<double>(preparation.longer_side) / longer);
  auto const times = [&](std::int64_t side) {
    return static_cast<std::int64_t>(std::floor(static_cast<double>(side) * scale));
  };
  return {times(size.height), times(size.width)};
}

void check(std::vector<at::Tensor> const& images) {
  if (images.empty()) { throw InvalidArgument("a detector takes one image or more, and was given none"); }
  for (std::size_t i = 0; i < images.size(); ++i) {
    auto const& image = images[i];
    if (image.dim() != 3 || image.size(0) != 3 || image.size(1) < 1 || image.size(2) < 1 ||
        !image.is_floating_point() || image.device() != images[0].device()) {
      throw InvalidArgument(
          "a detector takes images [3, H, W] of floating-point numbers in [0, 1] on one device, and image " +
          std::to_string(i) + " is " + c10::str(image.sizes()) + " of " + c10::toString(image.scalar_type()) + " on " +
          image.device().str());
    }
  }
}

std::int64_t rounded_up(std::int64_t side, std::int64_t multiple) {
  return (side + multiple - 1) / multiple * multiple;
}

at::Tensor by_channel(std::array<double, 3> const& values, at::Tensor const& like) {
  return at::tensor({values[0], values[1], values[2]}, at::kDouble)
      .to(like.device(), like.scalar_type(), /*non_blocking=*/true)
      .view({3, 1, 1});
}

}  // namespace

ImageBatch batch_images(std::vector<at::Tensor> const& images, ImagePreparation const& preparation) {
  check(images);
  ImageBatch batch;
  ImageSize largest;
  for (auto const& image : images) {
    batch.original_sizes.push_back({image.size(1), image.size(2)});
    auto const size = resized(batch.original_sizes.back(), preparation);
    if (size.height < 1 || size.width < 1) {
      throw InvalidArgument("an image of " + std::to_string(image.size(1)) + "x" + std::to_string(image.size(2)) +
                            " pixels is too narrow: resized to at most " + std::to_string(preparation.longer_side) +
                            " pixels nothing is left of it");
    }
    batch.sizes.push_back(size);
    largest = {std::max(largest.height, size.height), std::max(largest.width, size.width)};
  }
  auto const height = rounded_up(largest.height, preparation.multiple_of);
  auto const width = rounded_up(largest.width, preparation.multiple_of);
  auto const count = static_cast<std::int64_t>(images.size());
  batch.images = at::zeros({count, 3, height, width}, images[0].options().requires_grad(false));

  at::NoGradGuard const no_gradients;
  auto const mean = by_channel(preparation.mean, images[0]);
  auto const deviation = by_channel(preparation.deviation, images[0]);
  for (std::size_t i = 0; i < images.size(); ++i) {
    auto const size = batch.sizes[i];
    auto place =
        batch.images.select(0, static_cast<std::int64_t>(i)).narrow(1, 0, size.height).narrow(2, 0, size.width);
    if (size == batch.original_sizes[i]) {  // resizing to the same size changes no number
      at::sub_out(place, images[i], mean).div_(deviation);
    } else {
      auto const normalised = at::sub(images[i], mean).div_(deviation).unsqueeze(0);
      place.copy_(at::upsample_bilinear2d(normalised, {size.height, size.width}, /*align_corners=*/false).squeeze(0));
    }
  }
  return batch;
}

void set_sides(ImagePreparation& preparation, std::int64_t shorter_side, std::int64_t longer_side) {
  if (shorter_side < 1 || longer_side < shorter_side) {
    throw InvalidArgument("no detector resizes images to " + std::to_string(shorter_side) +
                          " pixels on the shorter and at most " + std::to_string(longer_side) + " on the longer side");
  }
  preparation.shorter_side = shorter_side;
  preparation.longer_side = longer_side;
}

at::Tensor limits_of(ImageBatch const& batch, at::Tensor const& like) {
  std::vector<double> limits;
  for (auto const& size : batch.sizes) {
    for (int corner = 0; corner < 2; ++corner) {
      limits.push_back(static_cast<double>(size.width));
      limits.push_back(static_cast<double>(size.height));
    }
  }
  return at::tensor(limits, at::kDouble).to(like.device(), like.scalar_type(), /*non_blocking=*/true).view({-1, 4});
}

at::Tensor resize_boxes(at::Tensor const& boxes, ImageSize from, ImageSize to) {
  if (from == to) { return boxes; }
  // Ratios of floats, as there.
  auto const ratio = [](std::int64_t new_side, std::int64_t old_side) {
    return static_cast<double>(static_cast<float>(new_side) / static_cast<float>(old_side));
  };
  auto resized_boxes = at::empty_like(boxes);
  for (std::int64_t corner = 0; corner < 4; ++corner) {
    auto place = resized_boxes.select(-1, corner);
    at::mul_out(place, boxes.select(-1, corner),
                at::scalar_tensor(corner % 2 == 0 ? ratio(to.width, from.width) : ratio(to.height, from.height)));
  }
  return resized_boxes;
}

}  // namespace maxbatch::models
