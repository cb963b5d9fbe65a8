#pragma once

#include <maxbatch/training/model_factory.hpp>

namespace maxbatch::models {

/// Two encoder layers over sequences of 64 tokens, of 10 classes: [N, 64]. Takes no images. Trains with cross-entropy
/// on random tokens drawn inside the step.
ModelFactory small_transformer();

}  // namespace maxbatch::models
