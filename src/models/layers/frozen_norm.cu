#include "frozen_norm_launch.hpp"

#include <cuda_bf16.h>
#include <cuda_fp16.h>

namespace maxbatch::models {
namespace {

constexpr int kThreads = 256;
constexpr int kOfThread = 8;  // elements, so that enough loads are under way
constexpr int kOfBlock = kThreads * kOfThread;

/// What numbers of a type are computed in.
template <typename T>
struct Computed {
  using Type = float;
};
template <>
struct Computed<double> {
  using Type = double;
};

__device__ float reciprocal_root(float x) { return rsqrtf(x); }
__device__ double reciprocal_root(double x) { return rsqrt(x); }

// A block takes a part of one plane, which has one scale and one shift.
template <typename T>
__global__ void __launch_bounds__(kThreads)
    frozen_norm_kernel(T* x, T const* added, typename Computed<T>::Type const* weight,
                       typename Computed<T>::Type const* bias, typename Computed<T>::Type const* mean,
                       typename Computed<T>::Type const* variance, std::int64_t channels, std::int64_t pixels,
                       double epsilon, bool relu) {
  using C = typename Computed<T>::Type;
  auto const plane = static_cast<std::int64_t>(blockIdx.x);
  auto const channel = plane % channels;
  C const scale = weight[channel] * reciprocal_root(variance[channel] + static_cast<C>(epsilon));
  C const shift = bias[channel] - mean[channel] * scale;
  auto const first = static_cast<std::int64_t>(blockIdx.y) * kOfBlock + threadIdx.x;
#pragma unroll
  for (int i = 0; i < kOfThread; ++i) {
    auto const pixel = first + i * kThreads;
    if (pixel >= pixels) { return; }
    auto const at = plane * pixels + pixel;
    C y = static_cast<C>(x[at]) * scale + shift;
    if (added != nullptr) { y += static_cast<C>(added[at]); }
    // Not a number stays what it is.
    x[at] = static_cast<T>(relu && y < C(0) ? C(0) : y);
  }
}

template <typename T>
__global__ void __launch_bounds__(kThreads)
    frozen_norm_gradient_kernel(T const* of_result, T const* result, typename Computed<T>::Type const* weight,
                                typename Computed<T>::Type const* variance, std::int64_t channels, std::int64_t pixels,
                                double epsilon, bool relu, T* of_x, T* of_added) {
  using C = typename Computed<T>::Type;
  auto const plane = static_cast<std::int64_t>(blockIdx.x);
  auto const channel = plane % channels;
  C const scale = weight[channel] * reciprocal_root(variance[channel] + static_cast<C>(epsilon));
  auto const first = static_cast<std::int64_t>(blockIdx.y) * kOfBlock + threadIdx.x;
#pragma unroll
  for (int i = 0; i < kOfThread; ++i) {
    auto const pixel = first + i * kThreads;
    if (pixel >= pixels) { return; }
    auto const at = plane * pixels + pixel;
    C const gradient = relu && static_cast<C>(result[at]) <= C(0) ? C(0) : static_cast<C>(of_result[at]);
    if (of_x != nullptr) { of_x[at] = static_cast<T>(gradient * scale); }
    if (of_added != nullptr) { of_added[at] = static_cast<T>(gradient); }
  }
}

dim3 blocks_for(FrozenNormShape const& shape) {
  return {static_cast<unsigned>(shape.planes), static_cast<unsigned>((shape.pixels + kOfBlock - 1) / kOfBlock)};
}

template <typename T>
int launch(FrozenNormShape const& shape, void* x, void const* added, void const* weight, void const* bias,
           void const* mean, void const* variance, void* stream) {
  using C = typename Computed<T>::Type;
  frozen_norm_kernel<T><<<blocks_for(shape), kThreads, 0, static_cast<cudaStream_t>(stream)>>>(
      static_cast<T*>(x), static_cast<T const*>(added), static_cast<C const*>(weight), static_cast<C const*>(bias),
      static_cast<C const*>(mean), static_cast<C const*>(variance), shape.channels, shape.pixels, shape.epsilon,
      shape.relu);
  return cudaGetLastError();
}

template <typename T>
int launch_gradient(FrozenNormShape const& shape, void const* of_result, void const* result, void const* weight,
                    void const* variance, void* of_x, void* of_added, void* stream) {
  using C = typename Computed<T>::Type;
  frozen_norm_gradient_kernel<T><<<blocks_for(shape), kThreads, 0, static_cast<cudaStream_t>(stream)>>>(
      static_cast<T const*>(of_result), static_cast<T const*>(result), static_cast<C const*>(weight),
      static_cast<C const*>(variance), shape.channels, shape.pixels, shape.epsilon, shape.relu, static_cast<T*>(of_x),
      static_cast<T*>(of_added));
  return cudaGetLastError();
}

}  // namespace

int launch_frozen_norm(FrozenNormShape const& shape, void* x, void const* added, void const* weight, void const* bias,
                       void const* mean, void const* variance, void* stream) {
  switch (shape.type) {
    case ElementType::float64: return launch<double>(shape, x, added, weight, bias, mean, variance, stream);
    case ElementType::float16: return launch<__half>(shape, x, added, weight, bias, mean, variance, stream);
    case ElementType::bfloat16: return launch<__nv_bfloat16>(shape, x, added, weight, bias, mean, variance, stream);
    case ElementType::float32: break;
  }
  return launch<float>(shape, x, added, weight, bias, mean, variance, stream);
}

int launch_frozen_norm_gradient(FrozenNormShape const& shape, void const* of_result, void const* result,
                                void const* weight, void const* variance, void* of_x, void* of_added, void* stream) {
  switch (shape.type) {
    case ElementType::float64:
      return launch_gradient<double>(shape, of_result, result, weight, variance, of_x, of_added, stream);
    case ElementType::float16:
      return launch_gradient<__half>(shape, of_result, result, weight, variance, of_x, of_added, stream);
    case ElementType::bfloat16:
      return launch_gradient<__nv_bfloat16>(shape, of_result, result, weight, variance, of_x, of_added, stream);
    case ElementType::float32: break;
  }
  return launch_gradient<float>(shape, of_result, result, weight, variance, of_x, of_added, stream);
}

}  // namespace maxbatch::models
