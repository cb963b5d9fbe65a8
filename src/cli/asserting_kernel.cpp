#include "asserting_kernel.hpp"

#include <torch/cuda.h>
#include <torch/types.h>

namespace maxbatch::cli {

std::function<void()> asserting_kernel(int device) {
  auto const tensor =
      torch::empty({1}, torch::TensorOptions(torch::Device(torch::kCUDA, static_cast<torch::DeviceIndex>(device))));
  return [tensor, device] {
    tensor.fill_(1);
    torch::cuda::synchronize(device);
  };
}

}  // namespace maxbatch::cli
