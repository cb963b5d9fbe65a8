#pragma once

#include <maxbatch/training/model_factory.hpp>

namespace maxbatch::models {

/// Three stages of two convolutions, each with batch norm and ReLU, on RGB images of 10 classes: [N, 3, H, W], 32x32 by
/// default and 8x8 at least. Trains with cross-entropy on random images drawn inside the step.
ModelFactory small_cnn();

}  // namespace maxbatch::models
