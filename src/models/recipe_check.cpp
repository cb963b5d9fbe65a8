#include "recipe_check.hpp"

#include <maxbatch/search/errors.hpp>

namespace maxbatch::models {
namespace {

std::string to_text(ImageSize size) { return std::to_string(size.height) + "x" + std::to_string(size.width); }

}  // namespace

void check_image_size(std::string const& model, ImageSize size, std::int64_t smallest_side) {
  if (size.height < smallest_side || size.width < smallest_side) {
    throw InvalidArgument("image size " + to_text(size) + " is too small for " + model + ": each side needs at least " +
                          std::to_string(smallest_side) + " pixels");
  }
}

void check_recipe(std::string const& model, Recipe const& recipe, c10::Device device,
                  std::optional<std::int64_t> smallest_side) {
  RecipeAbilities abilities;
  abilities.smallest_side = smallest_side;
  check_recipe(model, recipe, device, abilities);
}

void check_recipe(std::string const& model, Recipe const& recipe, c10::Device device,
                  RecipeAbilities const& abilities) {
  if (recipe.accumulation < 1) {
    throw InvalidArgument("accumulation " + std::to_string(recipe.accumulation) +
                          " makes no step: give 1 (no accumulation) or more micro-batches per optimizer step");
  }
  if (recipe.image_size) {
    if (!abilities.smallest_side) {
      throw InvalidArgument("image size " + to_text(*recipe.image_size) + " means nothing to " + model +
                            ": it takes no images; leave the image size out");
    }
    check_image_size(model, *recipe.image_size, *abilities.smallest_side);
  }
  if (recipe.sequence_length) {
    if (!abilities.longest_sequence) {
      throw InvalidArgument("a sequence length of " + std::to_string(*recipe.sequence_length) + " means nothing to " +
                            model + ": the length of its samples cannot be chosen; leave it out");
    }
    // Two: the last token of a sample is only predicted.
    if (*recipe.sequence_length < 2 || *recipe.sequence_length > *abilities.longest_sequence) {
      throw InvalidArgument("a sequence length of " + std::to_string(*recipe.sequence_length) + " is none of " + model +
                            ": it takes 2 to " + std::to_string(*abilities.longest_sequence) + " tokens");
    }
  }
  if (recipe.checkpoint && !abilities.checkpoint) {
    throw InvalidArgument("checkpoint is not available for " + model +
                          ": it has no blocks that could run again in the backward pass; leave it out");
  }
  if (recipe.channels_last && !abilities.channels_last) {
    throw InvalidArgument("channels last is not available for " + model +
                          ": it has no convolutions that would gain by it; leave it out");
  }
  if (recipe.precision == Precision::tf32 && device.is_cpu()) {
    throw InvalidArgument(
        "precision tf32 is a mode of NVIDIA's matrix units and does not exist on the cpu; use fp32 or bf16");
  }
}

}  // namespace maxbatch::models
