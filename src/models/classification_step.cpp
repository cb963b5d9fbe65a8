#include "classification_step.hpp"

#include "precision_guard.hpp"

#include <torch/torch.h>

#include <utility>
#include <vector>

namespace maxbatch::models {
namespace {

std::shared_ptr<torch::optim::Optimizer> make_optimizer(OptimizerKind kind, std::vector<at::Tensor> parameters) {
  if (kind == OptimizerKind::sgd) {
    // With momentum, as everyone trains: without it SGD keeps no state, and memory differs.
    return std::make_shared<torch::optim::SGD>(std::move(parameters), torch::optim::SGDOptions(1e-2).momentum(0.9));
  }
  return std::make_shared<torch::optim::AdamW>(std::move(parameters), torch::optim::AdamWOptions(1e-3));
}

class ClassificationStep {
 public:
  ClassificationStep(Classifier classifier, std::shared_ptr<torch::optim::Optimizer> optimizer, Recipe const& recipe)
      : classifier_(std::move(classifier)), optimizer_(std::move(optimizer)), recipe_(recipe) {}

  void operator()(Trial& trial) const {
    if (trial.mode() == StepMode::evaluate) {
      evaluate(trial);
    } else {
      train(trial);
    }
  }

 private:
  struct Batch {
    at::Tensor inputs;
    at::Tensor targets;
  };

  Batch draw_batch(Trial& trial) const {
    return trial.phase(Phase::setup, [&] {
      auto const targets = torch::TensorOptions().dtype(torch::kInt64).device(trial.device());
      return Batch{classifier_.draw_inputs(trial), torch::randint(classifier_.classes, {trial.batch_size()}, targets)};
    });
  }

  at::Tensor loss_of(Batch const& batch) const {
    PrecisionGuard const precision(recipe_.precision, batch.inputs.device());
    return torch::nn::functional::cross_entropy(classifier_.forward(batch.inputs), batch.targets);
  }

  void train(Trial& trial) const {
    classifier_.module->train();
    optimizer_->zero_grad(/*set_to_none=*/true);
    for (std::int64_t micro_batch = 0; micro_batch < recipe_.accumulation; ++micro_batch) {
      auto const batch = draw_batch(trial);
      auto const loss = trial.phase(Phase::forward, [&] {
        auto const of_micro_batch = loss_of(batch);
        return recipe_.accumulation == 1 ? of_micro_batch : of_micro_batch / recipe_.accumulation;
      });
      trial.phase(Phase::backward, [&] { loss.backward(); });
    }
    trial.phase(Phase::optimizer, [&] { optimizer_->step(); });
  }

  void evaluate(Trial& trial) const {
    torch::NoGradGuard const no_gradients;
    classifier_.module->eval();
    auto const batch = draw_batch(trial);
    trial.phase(Phase::evaluation, [&] { loss_of(batch); });
  }

  Classifier classifier_;
  std::shared_ptr<torch::optim::Optimizer> optimizer_;
  Recipe recipe_;
};

}  // namespace

PreparedStep prepare_classification_step(Classifier classifier, Recipe const& recipe) {
  auto const optimizer = make_optimizer(recipe.optimizer, classifier.module->parameters());
  PreparedStep prepared;
  prepared.state.preserve(classifier.module);
  prepared.state.preserve(optimizer);
  prepared.step = ClassificationStep(std::move(classifier), optimizer, recipe);
  return prepared;
}

}  // namespace maxbatch::models
