#pragma once

#include <maxbatch/training/model_factory.hpp>

#include <torch/torch.h>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

namespace maxbatch::test {

/// A small detector whose memory depends on the data: a mask of the image's brightest cells says how many boxes there
/// are, their features are gathered, and every box is compared with every other, so that the peak grows with the square
/// of a number that nobody knows before the images are drawn.
///
/// The images come from `seed` and the step's index alone, not from the default generator and not from the weights: the
/// same batch size needs the same memory in every trial, whatever ran before. A larger batch begins with the images of
/// a smaller one (a whole number of the 16 values that LibTorch draws at once), so there are never fewer boxes.
class DataDependentStep {
 public:
  struct Network : torch::nn::Module {
    Network() {
      register_module("features", features);
      register_module("score", score);
    }
    torch::nn::Conv2d features{torch::nn::Conv2dOptions(3, kChannels, 3).padding(1)};
    torch::nn::Linear score{kChannels, 1};
  };

  DataDependentStep(std::shared_ptr<Network> network, std::shared_ptr<torch::optim::Optimizer> optimizer,
                    std::uint64_t seed)
      : network_(std::move(network)), optimizer_(std::move(optimizer)), seed_(seed) {}

  void operator()(Trial& trial) const {
    auto generator = at::make_generator<at::CPUGeneratorImpl>(seed_ + static_cast<std::uint64_t>(trial.step_index()));
    auto const images = torch::randn({trial.batch_size(), 3, kSide, kSide}, generator).to(trial.device());
    optimizer_->zero_grad();
    auto const loss = trial.phase(Phase::forward, [&] { return loss_of(images); });
    trial.phase(Phase::backward, [&] { loss.backward(); });
    trial.phase(Phase::optimizer, [&] { optimizer_->step(); });
  }

 private:
  static constexpr std::int64_t kChannels = 8;
  static constexpr std::int64_t kSide = 16;

  at::Tensor loss_of(at::Tensor const& images) const {
    auto const features = torch::relu(network_->features->forward(images));
    auto const is_box = images.mean(/*dim=*/1) > 0.9;                   // [N, H, W]; about 1 cell in 17
    auto const cells = torch::nonzero(is_box);                          // [boxes, 3]
    auto const boxes = features.permute({0, 2, 3, 1}).index({is_box});  // [boxes, channels]
    auto const places = cells.to(boxes.scalar_type());
    auto const distances = (places.unsqueeze(0) - places.unsqueeze(1)).square().sum(-1);  // [boxes, boxes]
    auto const likeness = torch::mm(boxes, boxes.t()) / (distances + 1);
    return likeness.sum() + network_->score->forward(boxes).square().sum();
  }

  std::shared_ptr<Network> network_;
  std::shared_ptr<torch::optim::Optimizer> optimizer_;
  std::uint64_t seed_;
};

inline ModelFactory data_dependent_model(std::uint64_t seed = 0) {
  ModelFactory factory;
  factory.name = "data_dependent";
  factory.description = "a detector whose shapes depend on the data, seed " + std::to_string(seed);
  factory.make = [seed](c10::Device device, Recipe const&) {
    auto const network = std::make_shared<DataDependentStep::Network>();
    network->to(device);
    auto const optimizer =
        std::make_shared<torch::optim::AdamW>(network->parameters(), torch::optim::AdamWOptions(1e-6));
    PreparedStep prepared;
    prepared.state.preserve(network);
    prepared.state.preserve(optimizer);
    prepared.step = DataDependentStep(network, optimizer, seed);
    return prepared;
  };
  return factory;
}

}  // namespace maxbatch::test
