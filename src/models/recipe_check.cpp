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
  if (recipe.accumulation < 1) {
    throw InvalidArgument("accumulation " + std::to_string(recipe.accumulation) +
                          " makes no step: give 1 (no accumulation) or more micro-batches per optimizer step");
  }
  if (recipe.image_size) {
    if (!smallest_side) {
      throw InvalidArgument("image size " + to_text(*recipe.image_size) + " means nothing to " + model +
                            ": it takes no images; leave the image size out");
    }
    check_image_size(model, *recipe.image_size, *smallest_side);
  }
  if (recipe.precision == Precision::fp16) {
    throw InvalidArgument("precision fp16 is not available for " + model +
                          ": it needs loss scaling, which is not built yet; use bf16 or fp32");
  }
  if (recipe.precision == Precision::tf32 && device.is_cpu()) {
    throw InvalidArgument(
        "precision tf32 is a mode of NVIDIA's matrix units and does not exist on the cpu; use fp32 or bf16");
  }
}

}  // namespace maxbatch::models
