#pragma once

#include <maxbatch/training/trial.hpp>

#include <torch/torch.h>

#include <memory>
#include <string>

namespace maxbatch::test {

/// A bit of everything that a step may hold memory for: convolution, batch norm, dropout, attention, a linear layer.
struct MixedNet : torch::nn::Module {
  MixedNet() {
    register_module("convolution", convolution);
    register_module("norm", norm);
    register_module("dropout", dropout);
    register_module("attention", attention);
    register_module("out", out);
  }

  at::Tensor forward(at::Tensor const& images) {
    auto const maps = torch::relu(norm->forward(convolution->forward(images)));             // [N, 16, 8, 8]
    auto const tokens = dropout->forward(maps.flatten(2).permute({2, 0, 1}).contiguous());  // [64, N, 16]
    auto const attended = std::get<0>(attention->forward(tokens, tokens, tokens));
    return out->forward(attended.mean(0));
  }

  torch::nn::Conv2d convolution{torch::nn::Conv2dOptions(3, 16, 3).padding(1).stride(2)};
  torch::nn::BatchNorm2d norm{16};
  torch::nn::Dropout dropout{0.25};
  torch::nn::MultiheadAttention attention{16, 2};
  torch::nn::Linear out{16, 4};
};

inline std::shared_ptr<torch::optim::Optimizer> make_optimizer(std::string const& kind,
                                                               std::vector<at::Tensor> const& parameters) {
  using namespace torch::optim;
  if (kind == "sgd") { return std::make_shared<SGD>(parameters, SGDOptions(0.1).momentum(0.9)); }
  if (kind == "adam") { return std::make_shared<Adam>(parameters, AdamOptions(1e-2).amsgrad(true)); }
  if (kind == "rmsprop") {
    return std::make_shared<RMSprop>(parameters, RMSpropOptions(1e-2).momentum(0.9).centered(true));
  }
  if (kind == "lbfgs") { return std::make_shared<LBFGS>(parameters, LBFGSOptions(0.1).max_iter(3)); }
  return std::make_shared<AdamW>(parameters, AdamWOptions(1e-2));
}

/// A user's training: a net, an optimizer, one step.
struct MixedTraining {
  explicit MixedTraining(std::string const& optimizer_kind)
      : net(std::make_shared<MixedNet>()), optimizer(make_optimizer(optimizer_kind, net->parameters())) {}

  /// Returns the loss before the update.
  at::Tensor step(Trial& trial) {
    auto const images = torch::randn({trial.batch_size(), 3, 16, 16}, trial.device());
    at::Tensor first_loss;
    auto const closure = [&] {
      optimizer->zero_grad();
      auto const loss = trial.phase(Phase::forward, [&] { return net->forward(images).square().mean(); });
      trial.phase(Phase::backward, [&] { loss.backward(); });
      if (!first_loss.defined()) { first_loss = loss.detach(); }
      return loss;
    };
    if (dynamic_cast<torch::optim::LBFGS*>(optimizer.get()) != nullptr) {
      trial.phase(Phase::optimizer, [&] { optimizer->step(closure); });
    } else {
      closure();
      trial.phase(Phase::optimizer, [&] { optimizer->step(); });
    }
    return first_loss;
  }

  std::shared_ptr<MixedNet> net;
  std::shared_ptr<torch::optim::Optimizer> optimizer;
};

/// For steps outside a finder.
class NoWindow : public TrialWindow {
 public:
  Phase enter_phase(Phase) noexcept override { return Phase::other; }
  TrialEvidence evidence() const override { return {}; }
  void disarm() noexcept override {}
  Bytes still_allocated() const noexcept override { return {}; }
};

inline at::Tensor step_outside_a_finder(MixedTraining& training, std::int64_t batch_size) {
  NoWindow window;
  Trial::Setting setting;
  setting.batch_size = batch_size;
  Trial trial(setting, window);
  return training.step(trial);
}

}  // namespace maxbatch::test
