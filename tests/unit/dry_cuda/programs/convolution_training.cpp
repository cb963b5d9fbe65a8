// A small convolution net's training steps, with a matrix decomposition, so that scratch memory of several sources is in use.
// Prints the peaks that LibTorch's own allocator counted.
#include <c10/cuda/CUDACachingAllocator.h>
#include <torch/torch.h>

#include <cstdlib>
#include <iostream>

int main(int argc, char** argv) {
  torch::set_num_threads(1);
  auto const batch = argc > 1 ? std::atol(argv[1]) : 16;
  auto const device = torch::Device(torch::kCUDA);
  torch::nn::Sequential net(torch::nn::Conv2d(torch::nn::Conv2dOptions(3, 64, 3).padding(1)), torch::nn::ReLU(),
                            torch::nn::Conv2d(torch::nn::Conv2dOptions(64, 64, 3).padding(1)), torch::nn::ReLU(),
                            torch::nn::AdaptiveAvgPool2d(1), torch::nn::Flatten(), torch::nn::Linear(64, 10));
  net->to(device);
  torch::optim::SGD optimizer(net->parameters(), 0.1);
  for (int step = 0; step < 2; ++step) {
    auto const loss = net->forward(torch::randn({batch, 3, 64, 64}, device)).square().mean();
    optimizer.zero_grad();
    loss.backward();
    optimizer.step();
  }
  auto const stats = c10::cuda::CUDACachingAllocator::getDeviceStats(0);
  std::cout << stats.allocated_bytes[0].peak << ' ' << stats.reserved_bytes[0].peak << ' ' << stats.num_alloc_retries
            << ' ' << stats.num_ooms << '\n';
  return 0;
}
