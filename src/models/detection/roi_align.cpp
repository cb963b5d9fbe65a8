#include "roi_align.hpp"

#include "../cuda_kernels.hpp"
#include "box_math.hpp"
#include "kernel_launch.hpp"

#include <ATen/Dispatch.h>
#include <ATen/Functions.h>
#include <ATen/Parallel.h>
#include <torch/torch.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

namespace maxbatch::models {
namespace {

constexpr double kCanonicalSide = 224;  // of a region that is taken from level 4
constexpr double kCanonicalLevel = 4;
constexpr double kLevelEpsilon = 1e-6;

/// What the backward pass needs of the levels themselves.
struct Geometry {
  std::vector<std::vector<std::int64_t>> shapes;
  std::vector<double> scales;
  RoiAlignOptions options;
};

/// Of a single map it does not matter, and its scale may be any number.
std::int64_t first_level_of(std::vector<double> const& scales) {
  return scales.size() == 1 ? 0 : static_cast<std::int64_t>(-std::log2(scales.front()));
}

RoiCells cells_of(RoiAlignOptions const& options) {
  return {static_cast<std::int32_t>(options.height), static_cast<std::int32_t>(options.width),
          static_cast<std::int32_t>(options.sampling_ratio), options.aligned};
}

/// `T`: element type, const for reading.  maps: may hold undefined ones, which are not wanted.
template <typename T>
RoiPyramid<T> pyramid_of(std::vector<at::Tensor> const& maps, Geometry const& geometry) {
  RoiPyramid<T> pyramid;
  pyramid.levels = static_cast<std::int32_t>(maps.size());
  pyramid.first_level = static_cast<std::int32_t>(first_level_of(geometry.scales));
  pyramid.images = geometry.shapes.front()[0];
  pyramid.channels = geometry.shapes.front()[1];
  for (std::size_t level = 0; level < maps.size(); ++level) {
    pyramid.heights[level] = static_cast<std::int32_t>(geometry.shapes[level][2]);
    pyramid.widths[level] = static_cast<std::int32_t>(geometry.shapes[level][3]);
    pyramid.scales[level] = geometry.scales[level];
    if (!maps[level].defined()) { continue; }
    if constexpr (std::is_const_v<T>) {
      pyramid.maps[level] = maps[level].template const_data_ptr<std::remove_const_t<T>>();
    } else {
      pyramid.maps[level] = maps[level].template data_ptr<T>();
    }
  }
  return pyramid;
}

// ---- on the CPU ----

/// [K] int64: the level of each region. By LibTorch's operators, so that roundings are those of torchvision there.
at::Tensor levels_of(at::Tensor const& rois, std::int64_t first_level, std::int64_t count) {
  if (count == 1) { return at::zeros({rois.size(0)}, at::kLong); }
  auto const sides = at::sqrt((rois.select(1, 3) - rois.select(1, 1)) * (rois.select(1, 4) - rois.select(1, 2)));
  auto const levels =
      at::floor(kCanonicalLevel + at::log2(sides / kCanonicalSide) + at::scalar_tensor(kLevelEpsilon, rois.options()));
  auto const last = static_cast<double>(first_level + count - 1);
  // A region whose size is no number is taken from the first level.
  return at::nan_to_num(levels, static_cast<double>(first_level), last, static_cast<double>(first_level))
             .clamp(static_cast<double>(first_level), last)
             .to(at::kLong) -
         first_level;
}

template <typename T>
struct Region {
  std::int64_t image = 0;
  std::size_t level = 0;
  RoiGrid<T> grid{};
};

template <typename T, typename Map>
Region<T> region_of(RoiPyramid<Map> const& pyramid, RoiCells const& cells, T const* roi, std::int64_t level) {
  Region<T> region;
  region.level = static_cast<std::size_t>(level);
  region.grid = grid_of(Box<T>{roi[1], roi[2], roi[3], roi[4]}, static_cast<T>(pyramid.scales[region.level]),
                        cells.pooled_height, cells.pooled_width, cells.sampling_ratio, cells.aligned);
  if (roi[0] >= T(0) && roi[0] < static_cast<T>(pyramid.images)) {
    region.image = static_cast<std::int64_t>(roi[0]);
  } else {
    region.grid.rows = region.grid.columns = 0;  // an image that is not there
  }
  return region;
}

/// The samples of all cells of a region, cell by cell.
template <typename T>
void fill_samples(Region<T> const& region, RoiCells const& cells, std::int32_t height, std::int32_t width,
                  std::vector<RoiSample<T>>& samples) {
  samples.clear();
  for (std::int32_t row = 0; row < cells.pooled_height; ++row) {
    for (std::int32_t column = 0; column < cells.pooled_width; ++column) {
      for (std::int32_t y = 0; y < region.grid.rows; ++y) {
        for (std::int32_t x = 0; x < region.grid.columns; ++x) {
          samples.push_back(sample_at(region.grid.y_of(row, y), region.grid.x_of(column, x), height, width));
        }
      }
    }
  }
}

template <typename T>
void pool_on_cpu(RoiPyramid<T const> const& pyramid, RoiCells const& cells, T const* rois, std::int64_t const* levels,
                 std::int64_t count, T* pooled) {
  auto const cell_count = static_cast<std::int64_t>(cells.pooled_height) * cells.pooled_width;
  at::parallel_for(0, count, 1, [&](std::int64_t begin, std::int64_t end) {
    std::vector<RoiSample<T>> samples;
    for (auto roi = begin; roi < end; ++roi) {
      auto const region = region_of(pyramid, cells, rois + 5 * roi, levels[roi]);
      auto const height = pyramid.heights[region.level];
      auto const width = pyramid.widths[region.level];
      auto const plane = static_cast<std::int64_t>(height) * width;
      fill_samples(region, cells, height, width, samples);
      auto const of_cell = static_cast<std::int64_t>(region.grid.rows) * region.grid.columns;
      auto const of_mean = region.grid.count();
      auto const* map = pyramid.maps[region.level] + region.image * pyramid.channels * plane;
      auto* out = pooled + roi * pyramid.channels * cell_count;
      for (std::int64_t channel = 0; channel < pyramid.channels; ++channel, map += plane, out += cell_count) {
        auto const* sample = samples.data();
        for (std::int64_t cell = 0; cell < cell_count; ++cell) {
          auto sum = T(0);
          for (std::int64_t i = 0; i < of_cell; ++i, ++sample) {
            sum += sample->weight_low_low * map[sample->low_low] + sample->weight_low_high * map[sample->low_high] +
                   sample->weight_high_low * map[sample->high_low] + sample->weight_high_high * map[sample->high_high];
          }
          out[cell] = sum / of_mean;
        }
      }
    }
  });
}

/// Each thread has channels of its own, so that sums are taken in the regions' order whatever the number of threads.
template <typename T>
void spread_on_cpu(RoiPyramid<T> const& pyramid, RoiCells const& cells, T const* rois, std::int64_t const* levels,
                   std::int64_t count, T const* of_pooled) {
  auto const cell_count = static_cast<std::int64_t>(cells.pooled_height) * cells.pooled_width;
  auto const grain = std::max<std::int64_t>(1, pyramid.channels / std::max(1, at::get_num_threads()));
  at::parallel_for(0, pyramid.channels, grain, [&](std::int64_t begin, std::int64_t end) {
    std::vector<RoiSample<T>> samples;
    for (std::int64_t roi = 0; roi < count; ++roi) {
      auto const region = region_of(pyramid, cells, rois + 5 * roi, levels[roi]);
      if (pyramid.maps[region.level] == nullptr) { continue; }
      auto const height = pyramid.heights[region.level];
      auto const width = pyramid.widths[region.level];
      auto const plane = static_cast<std::int64_t>(height) * width;
      fill_samples(region, cells, height, width, samples);
      auto const of_cell = static_cast<std::int64_t>(region.grid.rows) * region.grid.columns;
      auto const of_mean = region.grid.count();
      auto* map = pyramid.maps[region.level] + (region.image * pyramid.channels + begin) * plane;
      auto const* in = of_pooled + (roi * pyramid.channels + begin) * cell_count;
      for (auto channel = begin; channel < end; ++channel, map += plane, in += cell_count) {
        auto const* sample = samples.data();
        for (std::int64_t cell = 0; cell < cell_count; ++cell) {
          auto const gradient = in[cell] / of_mean;
          for (std::int64_t i = 0; i < of_cell; ++i, ++sample) {
            map[sample->low_low] += gradient * sample->weight_low_low;
            map[sample->low_high] += gradient * sample->weight_low_high;
            map[sample->high_low] += gradient * sample->weight_high_low;
            map[sample->high_high] += gradient * sample->weight_high_high;
          }
        }
      }
    }
  });
}

// ---- both devices ----

at::Tensor pool(std::vector<at::Tensor> const& levels, at::Tensor const& rois, Geometry const& geometry) {
  auto const& options = geometry.options;
  auto const count = rois.size(0);
  auto pooled = at::empty({count, geometry.shapes.front()[1], options.height, options.width}, rois.options());
  if (pooled.numel() == 0) { return pooled; }
  auto const cells = cells_of(options);
  if (rois.is_cuda()) {
    with_cuda_kernels("RoIAlign", rois, [&](auto stream) {
      AT_DISPATCH_FLOATING_TYPES(rois.scalar_type(), "roi_align", [&] {
        check_launch(launch_roi_align<scalar_t>(pyramid_of<scalar_t const>(levels, geometry), cells,
                                                rois.const_data_ptr<scalar_t>(), count, pooled.data_ptr<scalar_t>(),
                                                stream));
      });
    });
    return pooled;
  }
  auto const level_of_roi = levels_of(rois, first_level_of(geometry.scales), static_cast<std::int64_t>(levels.size()));
  AT_DISPATCH_FLOATING_TYPES(rois.scalar_type(), "roi_align", [&] {
    pool_on_cpu<scalar_t>(pyramid_of<scalar_t const>(levels, geometry), cells, rois.const_data_ptr<scalar_t>(),
                          level_of_roi.const_data_ptr<std::int64_t>(), count, pooled.data_ptr<scalar_t>());
  });
  return pooled;
}

void spread(std::vector<at::Tensor> const& gradients, at::Tensor const& rois, at::Tensor const& of_pooled,
            Geometry const& geometry) {
  auto const count = rois.size(0);
  if (of_pooled.numel() == 0) { return; }
  auto const cells = cells_of(geometry.options);
  if (rois.is_cuda()) {
    with_cuda_kernels("RoIAlign's gradient", rois, [&](auto stream) {
      AT_DISPATCH_FLOATING_TYPES(rois.scalar_type(), "roi_align_backward", [&] {
        check_launch(launch_roi_align_backward<scalar_t>(pyramid_of<scalar_t>(gradients, geometry), cells,
                                                         rois.const_data_ptr<scalar_t>(), count,
                                                         of_pooled.const_data_ptr<scalar_t>(), stream));
      });
    });
    return;
  }
  auto const level_of_roi =
      levels_of(rois, first_level_of(geometry.scales), static_cast<std::int64_t>(gradients.size()));
  AT_DISPATCH_FLOATING_TYPES(rois.scalar_type(), "roi_align_backward", [&] {
    spread_on_cpu<scalar_t>(pyramid_of<scalar_t>(gradients, geometry), cells, rois.const_data_ptr<scalar_t>(),
                            level_of_roi.const_data_ptr<std::int64_t>(), count, of_pooled.const_data_ptr<scalar_t>());
  });
}

struct PyramidRoiAlign : torch::autograd::Function<PyramidRoiAlign> {
  static at::Tensor forward(torch::autograd::AutogradContext* context, at::TensorList levels, at::Tensor const& rois,
                            std::shared_ptr<Geometry> geometry) {
    std::vector<at::Tensor> maps;
    for (auto const& level : levels) {
      maps.push_back(level.contiguous());
      geometry->shapes.push_back(level.sizes().vec());
    }
    auto const regions = rois.contiguous();
    context->save_for_backward({regions});
    context->saved_data["geometry"] = c10::IValue::make_capsule(c10::make_intrusive<Holder>(geometry));
    return pool(maps, regions, *geometry);
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list const& gradients) {
    auto const rois = context->get_saved_variables()[0];
    auto const& geometry = *static_cast<Holder*>(context->saved_data["geometry"].toCapsule().get())->geometry;
    torch::autograd::variable_list of_levels;
    for (std::size_t level = 0; level < geometry.shapes.size(); ++level) {
      of_levels.push_back(context->needs_input_grad(level) ? at::zeros(geometry.shapes[level], rois.options())
                                                           : at::Tensor());
    }
    spread(of_levels, rois, gradients[0].contiguous(), geometry);
    of_levels.resize(geometry.shapes.size() + 2);  // regions and geometry have none
    return of_levels;
  }

  struct Holder : torch::CustomClassHolder {
    explicit Holder(std::shared_ptr<Geometry> geometry_) : geometry(std::move(geometry_)) {}
    std::shared_ptr<Geometry> geometry;
  };
};

void check(std::vector<at::Tensor> const& levels, at::Tensor const& rois, RoiAlignOptions const& options) {
  auto const refuse = [](std::string const& what) { throw InvalidArgument("RoIAlign takes " + what); };
  if (levels.empty() || levels.size() > kMostPyramidLevels) {
    refuse("1 to " + std::to_string(kMostPyramidLevels) + " levels, and was given " + std::to_string(levels.size()));
  }
  for (auto const& level : levels) {
    if (level.dim() != 4 || level.size(0) != levels[0].size(0) || level.size(1) != levels[0].size(1) ||
        level.size(2) < 1 || level.size(3) < 1) {
      refuse("feature maps [N, C, H, W], and was given " + c10::str(level.sizes()));
    }
    if (level.size(2) * level.size(3) > std::numeric_limits<std::int32_t>::max()) {
      refuse("maps of less than 2^31 pixels, and was given " + c10::str(level.sizes()));
    }
    if (level.device() != rois.device()) {
      refuse("maps and regions on one device, and was given " + level.device().str() + " and " + rois.device().str());
    }
    if (!level.is_floating_point()) {
      refuse(std::string("maps of floating-point numbers, and was given ") + c10::toString(level.scalar_type()));
    }
  }
  if (rois.dim() != 2 || rois.size(1) != 5 || !rois.is_floating_point()) {
    refuse("regions [K, 5] of floating-point numbers, and was given " + c10::str(rois.sizes()) + " of " +
           c10::toString(rois.scalar_type()));
  }
  if (options.height < 1 || options.width < 1 || options.height * options.width > (1 << 20)) {
    refuse("at least one cell each way, and was asked for " + std::to_string(options.height) + "x" +
           std::to_string(options.width));
  }
}

}  // namespace

std::vector<double> scales_of(std::vector<at::Tensor> const& levels, std::int64_t largest_image_height) {
  std::vector<double> scales;
  for (auto const& level : levels) {
    // In float, as there.
    auto const ratio =
        static_cast<float>(static_cast<double>(level.size(2)) / static_cast<double>(largest_image_height));
    scales.push_back(std::exp2(static_cast<double>(std::nearbyint(std::log2(ratio)))));
  }
  return scales;
}

at::Tensor pyramid_roi_align(std::vector<at::Tensor> const& levels, at::Tensor const& rois,
                             std::vector<double> const& scales, RoiAlignOptions const& options) {
  check(levels, rois, options);
  TORCH_CHECK(scales.size() == levels.size(), "pyramid_roi_align: ", scales.size(), " scales for ", levels.size(),
              " levels");
  // 16-bit maps are pooled in float, as torchvision does under autocast.
  auto const type = levels[0].scalar_type();
  auto const computed = type == at::kDouble ? at::kDouble : at::kFloat;
  std::vector<at::Tensor> maps;
  for (auto const& level : levels) { maps.push_back(level.to(computed)); }
  auto geometry = std::make_shared<Geometry>();
  geometry->scales = scales;
  geometry->options = options;
  return PyramidRoiAlign::apply(at::TensorList(maps), rois.to(computed), std::move(geometry)).to(type);
}

at::Tensor roi_align(at::Tensor const& features, at::Tensor const& rois, double spatial_scale,
                     RoiAlignOptions const& options) {
  return pyramid_roi_align({features}, rois, {spatial_scale}, options);
}

}  // namespace maxbatch::models
