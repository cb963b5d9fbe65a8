#include "box_math.hpp"
#include "kernel_launch.hpp"

namespace maxbatch::models {
namespace {

constexpr int kThreads = 256;
constexpr int kTruthAtOnce = 64;  // true boxes in shared memory
constexpr std::int64_t kBelow = -1;
constexpr std::int64_t kBetween = -2;

__device__ void raise(float* address, float value) {
  // Overlaps are not negative, and the bits of such numbers are ordered as they are.
  atomicMax(reinterpret_cast<int*>(address), __float_as_int(value));
}
__device__ void raise(double* address, double value) {
  atomicMax(reinterpret_cast<long long*>(address), __double_as_longlong(value));
}

template <typename T>
__device__ Box<T> box_at(T const* boxes, std::int64_t index) {
  T const* const corners = boxes + 4 * index;
  return {corners[0], corners[1], corners[2], corners[3]};
}

/// The true boxes of one image that are looked at together.
template <typename T>
struct Truth {
  Box<T> boxes[kTruthAtOnce];
  T areas[kTruthAtOnce];
  T best[kTruthAtOnce];
};

// How much each true box overlaps with any box at most.
template <typename T>
__global__ void __launch_bounds__(kThreads)
    best_overlap_kernel(T const* truth, std::int32_t const* starts, T const* boxes, std::int64_t row_stride,
                        std::int64_t count, T* best) {
  __shared__ Truth<T> shared;
  auto const index = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  boxes += blockIdx.y * row_stride;
  bool const is_box = index < count;
  auto const box = is_box ? box_at(boxes, index) : Box<T>{T(0), T(0), T(0), T(0)};
  T const area = area_of(box);
  int const end = starts[blockIdx.y + 1];
  for (int begin = starts[blockIdx.y]; begin < end; begin += kTruthAtOnce) {
    int const here = end - begin < kTruthAtOnce ? end - begin : kTruthAtOnce;
    for (int g = static_cast<int>(threadIdx.x); g < here; g += kThreads) {
      shared.boxes[g] = box_at(truth, begin + g);
      shared.areas[g] = area_of(shared.boxes[g]);
      shared.best[g] = T(0);
    }
    __syncthreads();
    for (int g = 0; g < here; ++g) {
      T overlap = is_box ? overlap_of(shared.boxes[g], shared.areas[g], box, area) : T(0);
      overlap = overlap > T(0) ? overlap : T(0);
      if (__ballot_sync(~0U, overlap > T(0)) == 0) { continue; }
      for (int distance = 16; distance > 0; distance /= 2) {
        T const other = __shfl_down_sync(~0U, overlap, distance);
        overlap = other > overlap ? other : overlap;
      }
      if (threadIdx.x % 32 == 0) { raise(&shared.best[g], overlap); }
    }
    __syncthreads();
    for (int g = static_cast<int>(threadIdx.x); g < here; g += kThreads) {
      if (shared.best[g] > T(0)) { raise(&best[begin + g], shared.best[g]); }
    }
    __syncthreads();
  }
}

template <typename T>
__global__ void __launch_bounds__(kThreads)
    matching_kernel(T const* truth, std::int32_t const* starts, T const* boxes, std::int64_t row_stride,
                    std::int64_t count, T low, T high, T const* best, std::int64_t* matches) {
  __shared__ Truth<T> shared;
  auto const index = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  boxes += blockIdx.y * row_stride;
  bool const is_box = index < count;
  auto const box = is_box ? box_at(boxes, index) : Box<T>{T(0), T(0), T(0), T(0)};
  T const area = area_of(box);
  int const first = starts[blockIdx.y];
  int const end = starts[blockIdx.y + 1];
  T most = T(-1);
  std::int64_t match = first;
  bool is_best = false;
  for (int begin = first; begin < end; begin += kTruthAtOnce) {
    int const here = end - begin < kTruthAtOnce ? end - begin : kTruthAtOnce;
    for (int g = static_cast<int>(threadIdx.x); g < here; g += kThreads) {
      shared.boxes[g] = box_at(truth, begin + g);
      shared.areas[g] = area_of(shared.boxes[g]);
      shared.best[g] = best != nullptr ? best[begin + g] : T(-1);
    }
    __syncthreads();
    for (int g = 0; is_box && g < here; ++g) {
      T const overlap = overlap_of(shared.boxes[g], shared.areas[g], box, area);
      is_best = is_best || overlap == shared.best[g];
      if (overlap > most) {
        most = overlap;
        match = begin + g;
      }
    }
    __syncthreads();
  }
  if (!is_box) { return; }
  if (first == end) {
    match = kBelow;
  } else if (most < high && !is_best) {
    match = most < low ? kBelow : kBetween;
  }
  matches[blockIdx.y * count + index] = match;
}

}  // namespace

template <typename T>
int launch_matching(T const* truth, std::int32_t const* starts, T const* boxes, std::int64_t row_stride,
                    std::int64_t rows, std::int64_t count, double low, double high, T* best, std::int64_t* matches,
                    void* stream) {
  dim3 const blocks(static_cast<unsigned>((count + kThreads - 1) / kThreads), static_cast<unsigned>(rows));
  if (best != nullptr) {
    best_overlap_kernel<T>
        <<<blocks, kThreads, 0, static_cast<cudaStream_t>(stream)>>>(truth, starts, boxes, row_stride, count, best);
    if (auto const error = cudaGetLastError(); error != cudaSuccess) { return error; }
  }
  matching_kernel<T><<<blocks, kThreads, 0, static_cast<cudaStream_t>(stream)>>>(
      truth, starts, boxes, row_stride, count, static_cast<T>(low), static_cast<T>(high), best, matches);
  return cudaGetLastError();
}

template int launch_matching<float>(float const*, std::int32_t const*, float const*, std::int64_t, std::int64_t,
                                    std::int64_t, double, double, float*, std::int64_t*, void*);
template int launch_matching<double>(double const*, std::int32_t const*, double const*, std::int64_t, std::int64_t,
                                     std::int64_t, double, double, double*, std::int64_t*, void*);

}  // namespace maxbatch::models
