#pragma once

#include <maxbatch/training/recipe.hpp>

#include <string>

namespace maxbatch::report {

/// "adamw, fp32, 224x224 images, 2 micro-batches a step"
std::string recipe_text(Recipe const& recipe);

}  // namespace maxbatch::report
