/// The whole program `maxbatch` over a model of your own: own_model find --model my_net --budget 64MiB
#include <maxbatch/cli/program.hpp>
#include <maxbatch/search/errors.hpp>
#include <maxbatch/training/multi_tensor_optimizers.hpp>

#include <torch/torch.h>

#include <memory>

namespace {

maxbatch::PreparedStep make_my_net(torch::Device device, maxbatch::Recipe const& recipe) {
  if (recipe.optimizer != maxbatch::OptimizerKind::adamw_fused || recipe.precision != maxbatch::Precision::fp32 ||
      recipe.accumulation != 1 || recipe.sequence_length || recipe.checkpoint || recipe.channels_last) {
    throw maxbatch::InvalidArgument("my_net trains with adamw-fused, in fp32, without accumulation or anything else");
  }
  torch::nn::Sequential model(torch::nn::Conv2d(3, 16, 3), torch::nn::ReLU(), torch::nn::AdaptiveAvgPool2d(1),
                              torch::nn::Flatten(), torch::nn::Linear(16, 10));
  model->to(device);
  auto const optimizer = std::make_shared<maxbatch::FusedAdamW>(model->parameters());

  maxbatch::PreparedStep prepared;
  prepared.state.preserve(model.ptr());
  prepared.state.preserve(optimizer);
  prepared.step = [=](maxbatch::Trial& trial) mutable {
    auto const size = trial.image_size().value_or(maxbatch::ImageSize{32, 32});
    auto const images = torch::randn({trial.batch_size(), 3, size.height, size.width}, trial.device());
    optimizer->zero_grad();
    auto const loss = trial.phase(maxbatch::Phase::forward, [&] { return model->forward(images).square().mean(); });
    trial.phase(maxbatch::Phase::backward, [&] { loss.backward(); });
    trial.phase(maxbatch::Phase::optimizer, [&] { optimizer->step(); });
  };
  return prepared;
}

}  // namespace

// [main]
int main(int argc, char** argv) {
  auto models = maxbatch::models::ModelRegistry::built_in();
  models.add({"my_net", "one convolution", maxbatch::ImageSize{32, 32}, make_my_net});
  return maxbatch::run_program(argc, argv, models);
}
// [/main]
