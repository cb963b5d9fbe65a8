#include "box_math.hpp"
#include "kernel_launch.hpp"

namespace maxbatch::models {
namespace {

constexpr int kThreads = 512;
constexpr int kWarps = kThreads / 32;
constexpr int kTile = 64;  // boxes that are settled among themselves before they remove later ones

/// Sum over a block of one number a thread, for all of its threads. `sums`: [kWarps].
__device__ int sum_over_block(int value, int* sums) {
  for (int distance = 16; distance > 0; distance /= 2) { value += __shfl_down_sync(~0U, value, distance); }
  if (threadIdx.x % 32 == 0) { sums[threadIdx.x / 32] = value; }
  __syncthreads();
  int total = 0;
  for (int warp = 0; warp < kWarps; ++warp) { total += sums[warp]; }
  __syncthreads();
  return total;
}

/// Places of this block's segment in the row's order, gathered in order. Returns how many; `list` gets where they are:
/// segments of a row lie one behind the other in its scratch.
__device__ int gather_segment(std::int64_t const* order, std::int32_t const* segments, int count, int segment,
                              std::int32_t* scratch, std::int32_t** list, int* sums) {
  int before = 0;
  for (int place = static_cast<int>(threadIdx.x); place < count; place += kThreads) {
    int const other = segments[place];  // the order does not matter for a count
    before += other >= 0 && other < segment ? 1 : 0;
  }
  *list = scratch + sum_over_block(before, sums);

  int found = 0;
  for (int start = 0; start < count; start += kThreads) {
    int const place = start + static_cast<int>(threadIdx.x);
    bool const is_mine = place < count && segments[order[place]] == segment;
    unsigned const votes = __ballot_sync(~0U, is_mine);
    if (threadIdx.x % 32 == 0) { sums[threadIdx.x / 32] = __popc(votes); }
    __syncthreads();
    int warps_before = 0;
    int total = 0;
    for (int warp = 0; warp < kWarps; ++warp) {
      warps_before += warp < static_cast<int>(threadIdx.x) / 32 ? sums[warp] : 0;
      total += sums[warp];
    }
    if (is_mine) { (*list)[found + warps_before + __popc(votes & ((1U << (threadIdx.x % 32)) - 1))] = place; }
    found += total;
    __syncthreads();
  }
  return found;
}

// A block takes one segment of one row. It goes through the segment in tiles: which boxes of a tile are kept is settled
// by one thread from a table of who removes whom; then all threads let those remove later boxes.
template <typename T>
__global__ void __launch_bounds__(kThreads)
    suppression_kernel(T const* boxes, std::int64_t const* order, std::int32_t const* segments, int count,
                       double threshold, std::int32_t* scratch, bool* keep) {
  __shared__ int sums[kWarps];
  __shared__ Box<T> tile[kTile];
  __shared__ T areas[kTile];
  __shared__ unsigned long long removes[kTile];  // bit j of i: i removes j
  __shared__ unsigned long long kept;

  auto const row = static_cast<std::int64_t>(blockIdx.y) * count;
  boxes += 4 * row;
  order += row;
  segments += row;
  keep += row;
  std::int32_t* list = nullptr;
  int const size = gather_segment(order, segments, count, static_cast<int>(blockIdx.x), scratch + row, &list, sums);
  for (int i = static_cast<int>(threadIdx.x); i < size; i += kThreads) { keep[list[i]] = true; }
  __syncthreads();

  auto const box_at = [&](int i) {
    T const* const corners = boxes + 4 * order[list[i]];
    return Box<T>{corners[0], corners[1], corners[2], corners[3]};
  };
  for (int start = 0; start < size; start += kTile) {
    int const in_tile = size - start < kTile ? size - start : kTile;
    int const thread = static_cast<int>(threadIdx.x);
    if (thread < in_tile) {
      tile[thread] = box_at(start + thread);
      areas[thread] = area_of(tile[thread]);
      removes[thread] = 0;
    }
    if (thread == 0) { kept = 0; }
    __syncthreads();
    for (int pair = thread; pair < in_tile * in_tile; pair += kThreads) {
      int const i = pair / in_tile;
      int const j = pair % in_tile;
      if (i<j&& static_cast<double>(overlap_of(tile[i], areas[i], tile[j], areas[j]))> threshold) {
        atomicOr(&removes[i], 1ULL << j);
      }
    }
    if (thread < in_tile && keep[list[start + thread]]) { atomicOr(&kept, 1ULL << thread); }
    __syncthreads();
    if (thread == 0) {
      for (int i = 0; i < in_tile; ++i) {
        if ((kept >> i & 1) != 0) { kept &= ~removes[i]; }
      }
    }
    __syncthreads();
    auto const survivors = kept;
    if (thread < in_tile && (survivors >> thread & 1) == 0) { keep[list[start + thread]] = false; }
    for (int j = start + kTile + thread; j < size; j += kThreads) {
      if (!keep[list[j]]) { continue; }
      auto const box = box_at(j);
      T const area = area_of(box);
      for (auto left = survivors; left != 0; left &= left - 1) {
        int const i = __ffsll(static_cast<long long>(left)) - 1;
        if (static_cast<double>(overlap_of(tile[i], areas[i], box, area)) > threshold) {
          keep[list[j]] = false;
          break;
        }
      }
    }
    __syncthreads();
  }
}

}  // namespace

template <typename T>
int launch_suppression(T const* boxes, std::int64_t const* order, std::int32_t const* segments, std::int64_t rows,
                       std::int32_t count, std::int32_t segment_count, double threshold, std::int32_t* scratch,
                       bool* keep, void* stream) {
  dim3 const blocks(static_cast<unsigned>(segment_count), static_cast<unsigned>(rows));
  suppression_kernel<T><<<blocks, kThreads, 0, static_cast<cudaStream_t>(stream)>>>(boxes, order, segments, count,
                                                                                    threshold, scratch, keep);
  return cudaGetLastError();
}

template int launch_suppression<float>(float const*, std::int64_t const*, std::int32_t const*, std::int64_t,
                                       std::int32_t, std::int32_t, double, std::int32_t*, bool*, void*);
template int launch_suppression<double>(double const*, std::int64_t const*, std::int32_t const*, std::int64_t,
                                        std::int32_t, std::int32_t, double, std::int32_t*, bool*, void*);

}  // namespace maxbatch::models
