// The training program that data/op-traces/mlp_32 was recorded with, without its recorder. Prints what LibTorch's own
// allocator says of step 2.
#include <c10/cuda/CUDACachingAllocator.h>
#include <torch/torch.h>

#include <iostream>

namespace {

constexpr std::int64_t kBatch = 32;

}  // namespace

int main() {
  torch::set_num_threads(1);
  auto const device = torch::Device(torch::kCUDA);
  torch::ones({1}, device);  // makes the context
  torch::nn::Sequential net(torch::nn::Linear(784, 512), torch::nn::ReLU(), torch::nn::Linear(512, 512),
                            torch::nn::ReLU(), torch::nn::Dropout(0.1), torch::nn::Linear(512, 10));
  net->to(device);
  torch::optim::AdamW optimizer(net->parameters(), torch::optim::AdamWOptions(1e-4));
  for (int step = 0; step < 3; ++step) {
    c10::cuda::CUDACachingAllocator::resetPeakStats(0);
    auto const images = torch::randn({kBatch, 784}).to(device);
    auto const labels = torch::randint(0, 10, {kBatch}, torch::kLong).to(device);
    auto const loss = torch::cross_entropy_loss(net->forward(images), labels);
    loss.backward();
    torch::nn::utils::clip_grad_norm_(net->parameters(), 1.0);
    optimizer.step();
    optimizer.zero_grad();
    torch::cuda::synchronize();
  }
  auto const stats = c10::cuda::CUDACachingAllocator::getDeviceStats(0);
  std::cout << "allocated peak " << stats.allocated_bytes[0].peak << "\nreserved peak " << stats.reserved_bytes[0].peak
            << '\n';
  return 0;
}
