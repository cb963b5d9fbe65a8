/// Inside a training program: the live model and optimizer are used for the search and put back bit for bit.
#include <maxbatch/maxbatch.hpp>

#include <torch/torch.h>

#include <iostream>

int main() {
  torch::nn::Sequential model(torch::nn::Conv2d(3, 32, 3), torch::nn::ReLU(), torch::nn::AdaptiveAvgPool2d(1),
                              torch::nn::Flatten(), torch::nn::Linear(32, 10));
  torch::optim::AdamW optimizer(model->parameters());
  auto const weights_before = model->parameters().front().clone();

  // [preserve]
  using namespace maxbatch::literals;
  maxbatch::MaxBatchFinder finder(maxbatch::budgeted_cpu_device(64_MiB));
  finder.preserve(model).preserve(optimizer);

  auto const result = finder.find([&](maxbatch::Trial& trial) {
    auto const images = torch::randn({trial.batch_size(), 3, 64, 64}, trial.device());
    auto const labels = torch::randint(10, {trial.batch_size()}, torch::kInt64);
    optimizer.zero_grad();
    torch::nn::functional::cross_entropy(model->forward(images), labels).backward();
    optimizer.step();
  });
  std::cout << result.summary() << '\n';
  // [/preserve]

  auto const untouched = torch::equal(weights_before, model->parameters().front());
  std::cout << (untouched ? "The weights are what they were.\n" : "The weights were changed!\n");
  return result.batch_size() && untouched ? 0 : 1;
}
