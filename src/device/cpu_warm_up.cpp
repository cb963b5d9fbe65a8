#include "cpu_warm_up.hpp"

#include <ATen/Parallel.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/conv2d.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/ones.h>
#include <c10/core/InferenceMode.h>
#include <c10/core/TensorOptions.h>

namespace maxbatch::detail {
namespace {

void run_once(c10::ScalarType type) {
  auto const options = c10::TensorOptions().device(c10::kCPU).dtype(type).layout(c10::kStrided);
  auto const images = at::ones({2, 4, 16, 16}, options);
  auto const kernel = at::ones({8, 4, 3, 3}, options).set_requires_grad(true);
  auto const weight = at::ones({14 * 14, 16}, options).set_requires_grad(true);
  auto const features = at::conv2d(images, kernel);
  at::matmul(features.reshape({2 * 8, 14 * 14}), weight).sum().backward();
}

}  // namespace

void warm_up_cpu() {
  c10::InferenceMode const no_inference(false);
  at::AutoGradMode const with_gradients(true);
  at::parallel_for(0, at::get_num_threads(), 1, [](std::int64_t, std::int64_t) {});
  run_once(c10::kFloat);
  run_once(c10::kBFloat16);
}

}  // namespace maxbatch::detail
