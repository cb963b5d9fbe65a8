#include "box_math.hpp"
#include "kernel_launch.hpp"

namespace maxbatch::models {
namespace {

constexpr int kThreads = 256;
constexpr int kTableSamples = 512;  // of a region, kept in shared memory: 7x7 cells of 2x2 samples are 196
constexpr int kChannelsOfBlock = 64;

/// Level of the pyramid by a region's size: equation 1 of arXiv:1612.03144, with torchvision's constants and rounding.
template <typename T>
__device__ int level_of(Box<T> const& region, int first_level, int levels) {
  T const side = sqrt(area_of(region));
  T const level = floor(T(4) + log2(side / T(224)) + T(1e-6f));
  T const last = T(first_level + levels - 1);
  // A level that is no number goes to the first.
  T const clamped = level >= T(first_level) ? (level > last ? last : level) : T(first_level);
  return static_cast<int>(clamped) - first_level;
}

/// A region, its level and its samples: what all threads of a block share.
template <typename T>
struct Region {
  RoiGrid<T> grid;
  int level;
  int image;
  bool in_table;
};

template <typename T, typename Map>
__device__ void prepare(RoiPyramid<Map> const& pyramid, RoiCells const& cells, T const* roi, Region<T>& region,
                        RoiSample<T>* table) {
  if (threadIdx.x == 0) {
    Box<T> const box{roi[1], roi[2], roi[3], roi[4]};
    // A region of an image that is not there has no samples.
    bool const has_image = roi[0] >= T(0) && roi[0] < static_cast<T>(pyramid.images);
    region.image = has_image ? static_cast<int>(roi[0]) : 0;
    region.level = pyramid.levels == 1 ? 0 : level_of(box, pyramid.first_level, pyramid.levels);
    region.grid = grid_of(box, static_cast<T>(pyramid.scales[region.level]), cells.pooled_height, cells.pooled_width,
                          cells.sampling_ratio, cells.aligned);
    if (!has_image) { region.grid.rows = region.grid.columns = 0; }
    auto const samples =
        static_cast<std::int64_t>(cells.pooled_height) * cells.pooled_width * region.grid.rows * region.grid.columns;
    region.in_table = samples <= kTableSamples;
  }
  __syncthreads();
  if (!region.in_table) { return; }
  auto const of_cell = region.grid.rows * region.grid.columns;
  auto const samples = cells.pooled_height * cells.pooled_width * of_cell;
  for (int i = static_cast<int>(threadIdx.x); i < samples; i += kThreads) {
    auto const cell = i / of_cell;
    auto const sample = i % of_cell;
    table[i] = sample_at(region.grid.y_of(cell / cells.pooled_width, sample / region.grid.columns),
                         region.grid.x_of(cell % cells.pooled_width, sample % region.grid.columns),
                         pyramid.heights[region.level], pyramid.widths[region.level]);
  }
  __syncthreads();
}

template <typename T, typename Work>
__device__ void for_samples(Region<T> const& region, RoiCells const& cells, RoiSample<T> const* table, int cell,
                            int height, int width, Work const& work) {
  auto const& grid = region.grid;
  auto const of_cell = grid.rows * grid.columns;
  if (region.in_table) {
    for (int i = 0; i < of_cell; ++i) { work(table[cell * of_cell + i]); }
    return;
  }
  for (int row = 0; row < grid.rows; ++row) {
    for (int column = 0; column < grid.columns; ++column) {
      work(sample_at(grid.y_of(cell / cells.pooled_width, row), grid.x_of(cell % cells.pooled_width, column), height,
                     width));
    }
  }
}

// A block takes one region and some channels.
template <typename T>
__global__ void __launch_bounds__(kThreads)
    roi_align_kernel(RoiPyramid<T const> pyramid, RoiCells cells, T const* rois, T* pooled) {
  __shared__ Region<T> region;
  __shared__ RoiSample<T> table[kTableSamples];
  std::int64_t const roi = blockIdx.x;
  prepare(pyramid, cells, rois + roi * 5, region, table);

  int const height = pyramid.heights[region.level];
  int const width = pyramid.widths[region.level];
  auto const plane = static_cast<std::int64_t>(height) * width;
  int const of_region = cells.pooled_height * cells.pooled_width;
  auto const first_channel = static_cast<std::int64_t>(blockIdx.y) * kChannelsOfBlock;
  auto const channels = pyramid.channels - first_channel < kChannelsOfBlock ? pyramid.channels - first_channel
                                                                            : std::int64_t{kChannelsOfBlock};
  T const* const maps = pyramid.maps[region.level] + (region.image * pyramid.channels + first_channel) * plane;
  T* const out = pooled + (roi * pyramid.channels + first_channel) * of_region;
  T const count = region.grid.count();
  for (int i = static_cast<int>(threadIdx.x); i < channels * of_region; i += kThreads) {
    T const* const map = maps + (i / of_region) * plane;
    T sum = T(0);
    for_samples(region, cells, table, i % of_region, height, width, [&](RoiSample<T> const& sample) {
      sum += sample.weight_low_low * map[sample.low_low] + sample.weight_low_high * map[sample.low_high] +
             sample.weight_high_low * map[sample.high_low] + sample.weight_high_high * map[sample.high_high];
    });
    out[i] = sum / count;
  }
}

template <typename T>
__global__ void __launch_bounds__(kThreads)
    roi_align_backward_kernel(RoiPyramid<T> pyramid, RoiCells cells, T const* rois, T const* of_pooled) {
  __shared__ Region<T> region;
  __shared__ RoiSample<T> table[kTableSamples];
  std::int64_t const roi = blockIdx.x;
  prepare(pyramid, cells, rois + roi * 5, region, table);
  if (pyramid.maps[region.level] == nullptr) { return; }

  int const height = pyramid.heights[region.level];
  int const width = pyramid.widths[region.level];
  auto const plane = static_cast<std::int64_t>(height) * width;
  int const of_region = cells.pooled_height * cells.pooled_width;
  auto const first_channel = static_cast<std::int64_t>(blockIdx.y) * kChannelsOfBlock;
  auto const channels = pyramid.channels - first_channel < kChannelsOfBlock ? pyramid.channels - first_channel
                                                                            : std::int64_t{kChannelsOfBlock};
  T* const maps = pyramid.maps[region.level] + (region.image * pyramid.channels + first_channel) * plane;
  T const* const in = of_pooled + (roi * pyramid.channels + first_channel) * of_region;
  T const count = region.grid.count();
  for (int i = static_cast<int>(threadIdx.x); i < channels * of_region; i += kThreads) {
    T const gradient = in[i] / count;
    if (gradient == T(0)) { continue; }  // regions that count for nothing: padding of a batch
    T* const map = maps + (i / of_region) * plane;
    for_samples(region, cells, table, i % of_region, height, width, [&](RoiSample<T> const& sample) {
      if (sample.weight_low_low == T(0) && sample.weight_low_high == T(0) && sample.weight_high_low == T(0) &&
          sample.weight_high_high == T(0)) {
        return;
      }
      atomicAdd(map + sample.low_low, gradient * sample.weight_low_low);
      atomicAdd(map + sample.low_high, gradient * sample.weight_low_high);
      atomicAdd(map + sample.high_low, gradient * sample.weight_high_low);
      atomicAdd(map + sample.high_high, gradient * sample.weight_high_high);
    });
  }
}

template <typename T>
dim3 blocks_for(std::int64_t count, std::int64_t channels) {
  return {static_cast<unsigned>(count), static_cast<unsigned>((channels + kChannelsOfBlock - 1) / kChannelsOfBlock)};
}

}  // namespace

template <typename T>
int launch_roi_align(RoiPyramid<T const> const& pyramid, RoiCells const& cells, T const* rois, std::int64_t count,
                     T* pooled, void* stream) {
  roi_align_kernel<T><<<blocks_for<T>(count, pyramid.channels), kThreads, 0, static_cast<cudaStream_t>(stream)>>>(
      pyramid, cells, rois, pooled);
  return cudaGetLastError();
}

template <typename T>
int launch_roi_align_backward(RoiPyramid<T> const& gradients, RoiCells const& cells, T const* rois, std::int64_t count,
                              T const* of_pooled, void* stream) {
  roi_align_backward_kernel<T>
      <<<blocks_for<T>(count, gradients.channels), kThreads, 0, static_cast<cudaStream_t>(stream)>>>(gradients, cells,
                                                                                                     rois, of_pooled);
  return cudaGetLastError();
}

template int launch_roi_align<float>(RoiPyramid<float const> const&, RoiCells const&, float const*, std::int64_t,
                                     float*, void*);
template int launch_roi_align<double>(RoiPyramid<double const> const&, RoiCells const&, double const*, std::int64_t,
                                      double*, void*);
template int launch_roi_align_backward<float>(RoiPyramid<float> const&, RoiCells const&, float const*, std::int64_t,
                                              float const*, void*);
template int launch_roi_align_backward<double>(RoiPyramid<double> const&, RoiCells const&, double const*, std::int64_t,
                                               double const*, void*);

}  // namespace maxbatch::models
