#pragma once

#include <maxbatch/training/preserved_state.hpp>
#include <maxbatch/training/recipe.hpp>
#include <maxbatch/training/step.hpp>

#include <c10/core/Device.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

namespace maxbatch {

/// A step together with the state that it trains: built once, its structure put back between trials.
/// (A factory that returns a bare step is called anew for each trial, since nobody knows what its step has changed.)
struct PreparedStep {
  Step step;
  PreservedState state;
};

/// A model with its training step, by name.
struct ModelFactory {
  std::string name;
  std::string description;              ///< one line for `maxbatch models` and messages
  std::optional<ImageSize> image_size;  ///< the model's own input size; none: it takes no images
  /// Throws: InvalidArgument, before anything is built, for a recipe that the model or the device cannot do.
  std::function<PreparedStep(c10::Device, Recipe const&)> make;
  std::optional<std::int64_t> parameters = std::nullopt;  ///< how many numbers are trained; none: not said
  std::optional<std::int64_t> sequence_length =
      std::nullopt;  ///< of a language model's samples, in tokens; none: no such
  /// The name of the same model over easy inputs, where this one's are the hardest: reports put its peak beside the answer.
  std::string easy_twin = {};
};

}  // namespace maxbatch
