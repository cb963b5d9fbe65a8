#include "training_step.hpp"

#include "autocast_guard.hpp"
#include "tf32_guard.hpp"
#include <maxbatch/training/gradient_scaler.hpp>
#include <maxbatch/training/multi_tensor_optimizers.hpp>

#include <torch/torch.h>

#include <stdexcept>
#include <utility>

namespace maxbatch::models {
namespace {

/// Weights and images of convolutions, not their values, as Python's `model.to(memory_format=torch.channels_last)`.
void lay_out_channels_last(torch::nn::Module& module) {
  for (auto& parameter : module.parameters()) {
    if (parameter.dim() == 4) { parameter.set_data(parameter.contiguous(at::MemoryFormat::ChannelsLast)); }
  }
}

class TrainingStep {
 public:
  TrainingStep(Learner learner, std::shared_ptr<torch::optim::Optimizer> optimizer,
               std::shared_ptr<GradientScaler> scaler, Recipe const& recipe)
      : learner_(std::move(learner)), optimizer_(std::move(optimizer)), scaler_(std::move(scaler)), recipe_(recipe) {}

  void operator()(Trial& trial) const {
    Tf32Guard const tf32(recipe_.precision, trial.device());
    if (trial.mode() == StepMode::evaluate) {
      evaluate(trial);
    } else {
      train(trial);
    }
  }

 private:
  /// Runs the model on a batch that was drawn.
  using Batch = std::function<at::Tensor()>;

  Batch draw_batch(Trial& trial) const {
    return trial.phase(Phase::setup, [&] {
      if (learner_.draw) { return learner_.draw(trial); }
      auto inputs = learner_.draw_inputs(trial);
      if (recipe_.channels_last) { inputs = inputs.contiguous(at::MemoryFormat::ChannelsLast); }
      auto targets = learner_.draw_targets ? learner_.draw_targets(trial) : inputs;
      return Batch(
          [this, inputs = std::move(inputs), targets = std::move(targets)] { return learner_.loss(inputs, targets); });
    });
  }

  at::Tensor loss_of(Batch const& batch, c10::Device device) const {
    AutocastGuard const autocast(recipe_.precision, device);
    return batch();
  }

  void train(Trial& trial) const {
    // A scale of 2^16 is 1 after 16 halvings: who is not finite then is not finite for another reason.
    constexpr int kMostAttempts = 24;
    for (int attempt = 0; attempt < kMostAttempts; ++attempt) {
      learner_.module->train();
      optimizer_->zero_grad(/*set_to_none=*/true);
      accumulate_gradients(trial);
      if (update(trial)) { return; }
    }
    throw std::runtime_error("the gradients were not finite in " + std::to_string(kMostAttempts) +
                             " steps in a row, each with half of the loss scale of the one before");
  }

  void accumulate_gradients(Trial& trial) const {
    for (std::int64_t micro_batch = 0; micro_batch < recipe_.accumulation; ++micro_batch) {
      auto batch = draw_batch(trial);
      auto const loss = trial.phase(Phase::forward, [&] {
        auto const of_micro_batch = loss_of(batch, trial.device());
        auto const mean = recipe_.accumulation == 1 ? of_micro_batch : of_micro_batch / recipe_.accumulation;
        return scaler_ ? scaler_->scale(mean) : mean;
      });
      batch = nullptr;  // what the backward pass needs of it, autograd holds
      trial.phase(Phase::backward, [&] { loss.backward(); });
    }
  }

  /// False: skipped, which the scaler knows.
  bool update(Trial& trial) const {
    return trial.phase(Phase::optimizer, [&] {
      if (!scaler_) {
        optimizer_->step();
        return true;
      }
      auto const updated = scaler_->step(*optimizer_);
      scaler_->update();
      return updated.value_or(true);
    });
  }

  void evaluate(Trial& trial) const {
    torch::NoGradGuard const no_gradients;
    learner_.module->eval();
    auto const batch = draw_batch(trial);
    trial.phase(Phase::evaluation, [&] { loss_of(batch, trial.device()); });
  }

  Learner learner_;
  std::shared_ptr<torch::optim::Optimizer> optimizer_;
  std::shared_ptr<GradientScaler> scaler_;  ///< null: not in fp16
  Recipe recipe_;
};

}  // namespace

std::shared_ptr<torch::optim::Optimizer> make_optimizer(OptimizerKind kind, std::vector<at::Tensor> parameters,
                                                        std::optional<double> learning_rate) {
  // With momentum, as everyone trains: without it SGD keeps no state, and memory differs.
  auto const sgd = torch::optim::SGDOptions(learning_rate.value_or(1e-2)).momentum(0.9);
  auto const adamw = torch::optim::AdamWOptions(learning_rate.value_or(1e-3));
  switch (kind) {
    case OptimizerKind::adamw: break;
    case OptimizerKind::adamw_foreach: return std::make_shared<ForeachAdamW>(std::move(parameters), adamw);
    case OptimizerKind::adamw_fused: return std::make_shared<FusedAdamW>(std::move(parameters), adamw);
    case OptimizerKind::sgd: return std::make_shared<torch::optim::SGD>(std::move(parameters), sgd);
    case OptimizerKind::sgd_foreach: return std::make_shared<ForeachSGD>(std::move(parameters), sgd);
    case OptimizerKind::sgd_fused: return std::make_shared<FusedSGD>(std::move(parameters), sgd);
  }
  return std::make_shared<torch::optim::AdamW>(std::move(parameters), adamw);
}

PreparedStep prepare_training_step(Learner learner, Recipe const& recipe) {
  if (recipe.channels_last) { lay_out_channels_last(*learner.module); }
  auto const optimizer = make_optimizer(recipe.optimizer, learner.module->parameters(), learner.learning_rate);
  PreparedStep prepared;
  prepared.state.preserve(learner.module);
  prepared.state.preserve(optimizer);
  std::shared_ptr<GradientScaler> scaler;
  if (recipe.precision == Precision::fp16) {
    scaler = std::make_shared<GradientScaler>();
    prepared.state.preserve(scaler);
  }
  prepared.step = TrainingStep(std::move(learner), optimizer, scaler, recipe);
  return prepared;
}

}  // namespace maxbatch::models
