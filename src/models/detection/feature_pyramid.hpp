#pragma once

#include "../layers/convolution.hpp"

#include <torch/nn/module.h>

#include <cstdint>
#include <memory>
#include <vector>

namespace maxbatch::models {

/// What comes after the coarsest map.
enum class PyramidTop {
  pool,         ///< one more map, every second pixel of the last one
  convolutions  ///< two more, by 3x3 convolutions of stride 2 ("p6" and "p7")
};

/// Feature pyramid network (arXiv:1612.03144), with torchvision's names.
struct FeaturePyramid : torch::nn::Module {
  FeaturePyramid(std::vector<std::int64_t> const& channels_in, std::int64_t channels, PyramidTop top,
                 c10::Device device);

  /// maps: of the backbone, finest first. Returns [N, channels, …] for each of them, and those of the top.
  std::vector<at::Tensor> forward(std::vector<at::Tensor> const& maps) const;

  std::vector<std::shared_ptr<Convolution>> inner_blocks;
  std::vector<std::shared_ptr<Convolution>> layer_blocks;
  std::shared_ptr<Convolution> p6;  ///< none with PyramidTop::pool
  std::shared_ptr<Convolution> p7;
};

/// Uniform initialisation by fan-in, as torchvision starts the pyramid's convolutions.
void draw_uniform(Convolution& convolution);

}  // namespace maxbatch::models
