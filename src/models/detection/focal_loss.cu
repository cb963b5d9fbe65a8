#include "focal_math.hpp"
#include "kernel_launch.hpp"

namespace maxbatch::models {
namespace {

constexpr int kThreads = 256;
constexpr int kWarps = kThreads / 32;

// A block adds up what its threads find in one image; the caller adds up blocks. So sums are the same in every run.
template <typename T>
__global__ void __launch_bounds__(kThreads)
    focal_loss_kernel(T const* logits, std::int64_t const* labels, std::int64_t anchors, int classes, T* sums) {
  __shared__ T of_warps[kWarps];
  auto const image = static_cast<std::int64_t>(blockIdx.y);
  auto const total = anchors * classes;
  logits += image * total;
  labels += image * anchors;
  T sum = T(0);
  auto const stride = static_cast<std::int64_t>(gridDim.x) * kThreads;
  for (auto i = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x; i < total; i += stride) {
    auto const label = labels[i / classes];
    if (label >= -1) { sum += focal_loss_of(logits[i], label == i % classes); }
  }
  for (int distance = 16; distance > 0; distance /= 2) { sum += __shfl_down_sync(~0U, sum, distance); }
  if (threadIdx.x % 32 == 0) { of_warps[threadIdx.x / 32] = sum; }
  __syncthreads();
  if (threadIdx.x == 0) {
    for (int warp = 1; warp < kWarps; ++warp) { sum += of_warps[warp]; }
    sums[image * gridDim.x + blockIdx.x] = sum;
  }
}

template <typename T>
__global__ void __launch_bounds__(kThreads)
    focal_gradient_kernel(T const* logits, std::int64_t const* labels, T const* of_images, std::int64_t anchors,
                          int classes, T* gradient) {
  auto const image = static_cast<std::int64_t>(blockIdx.y);
  auto const total = anchors * classes;
  logits += image * total;
  gradient += image * total;
  labels += image * anchors;
  T const factor = of_images[image];
  auto const stride = static_cast<std::int64_t>(gridDim.x) * kThreads;
  for (auto i = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x; i < total; i += stride) {
    auto const label = labels[i / classes];
    gradient[i] = label >= -1 ? factor * focal_gradient_of(logits[i], label == i % classes) : T(0);
  }
}

dim3 blocks_for(std::int64_t images, std::int64_t blocks) {
  return {static_cast<unsigned>(blocks), static_cast<unsigned>(images)};
}

}  // namespace

template <typename T>
int launch_focal_loss(T const* logits, std::int64_t const* labels, std::int64_t images, std::int64_t anchors,
                      std::int32_t classes, std::int64_t blocks, T* sums, void* stream) {
  focal_loss_kernel<T><<<blocks_for(images, blocks), kThreads, 0, static_cast<cudaStream_t>(stream)>>>(
      logits, labels, anchors, classes, sums);
  return cudaGetLastError();
}

template <typename T>
int launch_focal_gradient(T const* logits, std::int64_t const* labels, T const* of_images, std::int64_t images,
                          std::int64_t anchors, std::int32_t classes, std::int64_t blocks, T* gradient, void* stream) {
  focal_gradient_kernel<T><<<blocks_for(images, blocks), kThreads, 0, static_cast<cudaStream_t>(stream)>>>(
      logits, labels, of_images, anchors, classes, gradient);
  return cudaGetLastError();
}

template int launch_focal_loss<float>(float const*, std::int64_t const*, std::int64_t, std::int64_t, std::int32_t,
                                      std::int64_t, float*, void*);
template int launch_focal_loss<double>(double const*, std::int64_t const*, std::int64_t, std::int64_t, std::int32_t,
                                       std::int64_t, double*, void*);
template int launch_focal_gradient<float>(float const*, std::int64_t const*, float const*, std::int64_t, std::int64_t,
                                          std::int32_t, std::int64_t, float*, void*);
template int launch_focal_gradient<double>(double const*, std::int64_t const*, double const*, std::int64_t,
                                           std::int64_t, std::int32_t, std::int64_t, double*, void*);

}  // namespace maxbatch::models
