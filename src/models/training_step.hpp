#pragma once

#include <maxbatch/training/model_factory.hpp>

#include <ATen/core/Tensor.h>

#include <functional>
#include <memory>
#include <optional>
#include <vector>

namespace maxbatch::models {

/// The optimizer that a recipe names, over these parameters: SGD with momentum 0.9 and a learning rate of 0.01, AdamW with
/// LibTorch's defaults; or with this learning rate.
std::shared_ptr<torch::optim::Optimizer> make_optimizer(OptimizerKind kind, std::vector<at::Tensor> parameters,
                                                        std::optional<double> learning_rate = std::nullopt);

/// What a model has to say for itself; everything else about training one is the same for all.
struct Learner {
  std::shared_ptr<torch::nn::Module> module;             ///< on its device already
  std::function<at::Tensor(Trial const&)> draw_inputs;   ///< [trial.batch_size(), …] on trial.device()
  std::function<at::Tensor(Trial const&)> draw_targets;  ///< null: the inputs are the targets
  std::function<at::Tensor(at::Tensor const& inputs, at::Tensor const& targets)> loss;  ///< a number; runs the model
  /// In place of those three, where a batch is no tensor: draws one, and gives what runs the model on it. In evaluation the
  /// result is not used.
  std::function<std::function<at::Tensor()>(Trial const&)> draw;
  std::optional<double> learning_rate;  ///< none: make_optimizer's
};

/// A step that trains, or evaluates, as the trial's mode says.
///
/// train: gradients set to none, then `recipe.accumulation` times inputs (setup), forward and backward, then the
/// optimizer. evaluate: inputs (setup) and forward without gradients (evaluation); optimizer state and gradients of an
/// earlier training step stay resident, as they do when a program validates in the middle of training.
///
/// In fp16 losses go through a GradientScaler. A step that it skips makes no optimizer state where the optimizer is
/// LibTorch's own, and so takes less memory than training does: such a step is done again, with the smaller scale.
PreparedStep prepare_training_step(Learner learner, Recipe const& recipe);

}  // namespace maxbatch::models
