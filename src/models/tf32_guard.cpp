#include "tf32_guard.hpp"

#include <ATen/Context.h>

namespace maxbatch::models {

Tf32Guard::Tf32Guard(Precision precision, c10::Device device) : acts_(device.is_cuda()) {
  if (!acts_) { return; }
  auto& context = at::globalContext();
  matmul_before_ = context.allowTF32CuBLAS();
  cudnn_before_ = context.allowTF32CuDNN();
  context.setAllowTF32CuBLAS(precision == Precision::tf32);
  context.setAllowTF32CuDNN(precision == Precision::tf32);
}

Tf32Guard::~Tf32Guard() {
  if (!acts_) { return; }
  auto& context = at::globalContext();
  context.setAllowTF32CuBLAS(matmul_before_);
  context.setAllowTF32CuDNN(cudnn_before_);
}

}  // namespace maxbatch::models
