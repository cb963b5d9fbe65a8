#include "cuda_warm_up.hpp"

#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/relu.h>
#include <c10/core/InferenceMode.h>
#include <c10/core/TensorOptions.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAGuard.h>

#include <cuda_runtime_api.h>

namespace maxbatch::detail {
namespace {

void run_once(c10::Device device, c10::ScalarType type) {
  auto const options = c10::TensorOptions().device(device).dtype(type).layout(c10::kStrided);
  auto const inputs = at::ones({16, 64}, options);
  auto const weight = at::ones({64, 32}, options).set_requires_grad(true);
  at::relu(at::matmul(inputs, weight)).sum().backward();
}

/// Memory of the driver's own, gone at the end of the scope.
class DriverMemory {
 public:
  explicit DriverMemory(std::size_t bytes) : status_(cudaMalloc(&pointer_, bytes)) {}
  ~DriverMemory() {
    if (status_ == cudaSuccess) { cudaFree(pointer_); }
  }
  DriverMemory(DriverMemory const&) = delete;
  DriverMemory& operator=(DriverMemory const&) = delete;

  cudaError_t status() const { return status_; }
  void* get() const { return pointer_; }

 private:
  void* pointer_ = nullptr;
  cudaError_t status_;
};

bool computes(c10::Device device) {
  DriverMemory const memory(sizeof(float));
  if (memory.status() == cudaErrorMemoryAllocation) {
    cudaGetLastError();
    return true;  // the card is full, and says so
  }
  if (memory.status() != cudaSuccess) { return false; }
  auto const number = at::from_blob(memory.get(), {1}, c10::TensorOptions().device(device).dtype(c10::kFloat));
  number.fill_(41).add_(1);
  float result = 0;
  return cudaDeviceSynchronize() == cudaSuccess &&
         cudaMemcpy(&result, memory.get(), sizeof result, cudaMemcpyDeviceToHost) == cudaSuccess && result == 42;
}

}  // namespace

void warm_up_cuda(c10::Device device) {
  c10::cuda::CUDAGuard const guard(device);
  c10::InferenceMode const no_inference(false);
  at::AutoGradMode const with_gradients(true);
  run_once(device, c10::kFloat);
  run_once(device, c10::kBFloat16);
  c10::cuda::device_synchronize();
}

bool answers_rightly(c10::Device device, bool runs_kernels) noexcept {
  try {
    c10::cuda::CUDAGuard const guard(device);
    c10::InferenceMode const no_inference(false);
    at::AutoGradMode const without_gradients(false);
    cudaGetLastError();
    if (cudaDeviceSynchronize() != cudaSuccess) { return false; }
    return !runs_kernels || computes(device);
  } catch (...) {  // NOLINT(bugprone-empty-catch): a check that throws is a device that does not answer
    return false;
  }
}

}  // namespace maxbatch::detail
