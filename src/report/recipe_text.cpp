#include "recipe_text.hpp"

namespace maxbatch::report {

std::string recipe_text(Recipe const& recipe) {
  auto text = std::string(to_string(recipe.optimizer)) + ", " + std::string(to_string(recipe.precision));
  if (recipe.image_size) {
    text +=
        ", " + std::to_string(recipe.image_size->height) + "x" + std::to_string(recipe.image_size->width) + " images";
  }
  if (recipe.sequence_length) { text += ", " + std::to_string(*recipe.sequence_length) + " tokens"; }
  if (recipe.checkpoint) { text += ", checkpointed"; }
  if (recipe.channels_last) { text += ", channels last"; }
  if (recipe.accumulation > 1) { text += ", " + std::to_string(recipe.accumulation) + " micro-batches a step"; }
  return text;
}

}  // namespace maxbatch::report
