#include "classification_step.hpp"

#include "training_step.hpp"

#include <torch/torch.h>

#include <utility>

namespace maxbatch::models {

PreparedStep prepare_classification_step(Classifier classifier, Recipe const& recipe) {
  Learner learner;
  learner.module = std::move(classifier.module);
  learner.draw_inputs = std::move(classifier.draw_inputs);
  learner.draw_targets = [classes = classifier.classes](Trial const& trial) {
    auto const targets = torch::TensorOptions().dtype(torch::kInt64).device(trial.device());
    return torch::randint(classes, {trial.batch_size()}, targets);
  };
  learner.loss = [forward = std::move(classifier.forward)](at::Tensor const& inputs, at::Tensor const& targets) {
    return torch::nn::functional::cross_entropy(forward(inputs), targets);
  };
  return prepare_training_step(std::move(learner), recipe);
}

}  // namespace maxbatch::models
