/// The factory form: the finder builds model and optimizer on whatever device it asks, here the CPU under a budget.
#include <maxbatch/maxbatch.hpp>

#include <torch/torch.h>

#include <iostream>
#include <memory>

// [factory]
struct Net : torch::nn::Module {
  Net() {
    register_module("convolve", convolve);
    register_module("classify", classify);
  }
  torch::Tensor forward(torch::Tensor const& images) { return classify(torch::relu(convolve(images)).mean({2, 3})); }
  torch::nn::Conv2d convolve{torch::nn::Conv2dOptions(3, 32, 3)};
  torch::nn::Linear classify{32, 10};
};

auto make_step(torch::Device device) {
  auto model = std::make_shared<Net>();
  model->to(device);
  auto optimizer = std::make_shared<torch::optim::AdamW>(model->parameters());
  return [=](maxbatch::Trial& trial) {  // one training step
    auto const images = torch::randn({trial.batch_size(), 3, 64, 64}, trial.device());
    auto const labels = torch::randint(10, {trial.batch_size()}, torch::device(trial.device()).dtype(torch::kInt64));
    optimizer->zero_grad();
    auto const loss = trial.phase(maxbatch::Phase::forward,
                                  [&] { return torch::nn::functional::cross_entropy(model->forward(images), labels); });
    trial.phase(maxbatch::Phase::backward, [&] { loss.backward(); });
    trial.phase(maxbatch::Phase::optimizer, [&] { optimizer->step(); });
  };
}
// [/factory]

int main() {
  // [find]
  using namespace maxbatch::literals;
  auto const result = maxbatch::MaxBatchFinder(maxbatch::budgeted_cpu_device(64_MiB)).find(make_step);
  std::cout << result.summary() << '\n';
  // [/find]
  return result.batch_size() ? 0 : 1;
}
