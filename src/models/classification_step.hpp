#pragma once

#include <maxbatch/training/model_factory.hpp>

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <memory>

namespace maxbatch::models {

/// What a classifier has to say for itself; everything else about training one is the same for all.
struct Classifier {
  std::shared_ptr<torch::nn::Module> module;             ///< on its device already
  std::function<at::Tensor(at::Tensor const&)> forward;  ///< inputs to logits [N, classes]
  std::function<at::Tensor(Trial const&)> draw_inputs;   ///< [trial.batch_size(), …] on trial.device()
  std::int64_t classes = 0;
};

/// A step that trains with cross-entropy on random classes: see prepare_training_step.
PreparedStep prepare_classification_step(Classifier classifier, Recipe const& recipe);

}  // namespace maxbatch::models
