#pragma once

#include <maxbatch/training/recipe.hpp>

#include <c10/core/Device.h>

#include <cstdint>
#include <optional>
#include <string>

namespace maxbatch::models {

/// What a model can be asked for.
struct RecipeAbilities {
  std::optional<std::int64_t> smallest_side;     ///< of its images, in pixels; none: it takes no images
  std::optional<std::int64_t> longest_sequence;  ///< in tokens; none: its samples have one length, or none
  bool checkpoint = false;
  bool channels_last = false;
};

/// Everything that can be said against a recipe before a model is built.  Throws: InvalidArgument.
void check_recipe(std::string const& model, Recipe const& recipe, c10::Device device, RecipeAbilities const& abilities);
/// Of a model that can nothing else. `smallest_side`: see RecipeAbilities.
void check_recipe(std::string const& model, Recipe const& recipe, c10::Device device,
                  std::optional<std::int64_t> smallest_side);

/// Throws: InvalidArgument for an image with a side below `smallest_side`.
void check_image_size(std::string const& model, ImageSize size, std::int64_t smallest_side);

}  // namespace maxbatch::models
