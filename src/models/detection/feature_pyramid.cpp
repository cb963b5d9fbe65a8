#include "feature_pyramid.hpp"

#include "../layers/nested.hpp"

#include <torch/torch.h>

#include <algorithm>
#include <cmath>

namespace maxbatch::models {

FeaturePyramid::FeaturePyramid(std::vector<std::int64_t> const& channels_in, std::int64_t channels, PyramidTop top,
                               c10::Device device) {
  auto const convolution = [&](std::int64_t in, std::int64_t side, std::int64_t stride = 1) {
    auto made = std::make_shared<Convolution>(Convolution::Shape{in, channels, side, stride, /*bias=*/true}, device);
    draw_uniform(*made);
    return made;
  };
  for (std::size_t i = 0; i < channels_in.size(); ++i) {
    auto const level = std::to_string(i);
    inner_blocks.push_back(nested(*this, {"inner_blocks", level}, "0", convolution(channels_in[i], 1)));
    layer_blocks.push_back(nested(*this, {"layer_blocks", level}, "0", convolution(channels, 3)));
  }
  if (top == PyramidTop::convolutions) {
    p6 = nested(*this, {"extra_blocks"}, "p6", convolution(channels, 3, 2));
    p7 = nested(*this, {"extra_blocks"}, "p7", convolution(channels, 3, 2));
  }
}

std::vector<at::Tensor> FeaturePyramid::forward(std::vector<at::Tensor> const& maps) const {
  std::vector<at::Tensor> results(maps.size());
  at::Tensor merged;
  for (auto i = maps.size(); i-- > 0;) {
    auto lateral = inner_blocks[i]->forward(maps[i]);
    if (merged.defined()) {
      // The sum is taken in the enlarged map, which nothing else needs.
      merged = at::upsample_nearest2d(merged, lateral.sizes().slice(2)).add_(lateral);
    } else {
      merged = std::move(lateral);
    }
    results[i] = layer_blocks[i]->forward(merged);
  }
  if (p6) {
    results.push_back(p6->forward(results.back()));
    results.push_back(p7->forward(at::relu(results.back())));
  } else {
    results.push_back(at::max_pool2d(results.back(), {1, 1}, {2, 2}));
  }
  return results;
}

void draw_uniform(Convolution& convolution) {
  at::NoGradGuard const no_gradients;
  auto const fan_in = convolution.weight.size(1) * convolution.weight.size(2) * convolution.weight.size(3);
  auto const bound = std::sqrt(3.0 / static_cast<double>(fan_in));
  convolution.weight.uniform_(-bound, bound);
}

}  // namespace maxbatch::models
