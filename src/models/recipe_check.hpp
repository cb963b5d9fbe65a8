#pragma once

#include <maxbatch/training/recipe.hpp>

#include <c10/core/Device.h>

#include <cstdint>
#include <optional>
#include <string>

namespace maxbatch::models {

/// Everything that can be said against a recipe before a model is built.
/// `smallest_side`: of the model's images in pixels; none: it takes no images.  Throws: InvalidArgument.
void check_recipe(std::string const& model, Recipe const& recipe, c10::Device device,
                  std::optional<std::int64_t> smallest_side);

/// Throws: InvalidArgument for an image with a side below `smallest_side`.
void check_image_size(std::string const& model, ImageSize size, std::int64_t smallest_side);

}  // namespace maxbatch::models
