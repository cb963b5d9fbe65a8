#include "box_coder.hpp"

#include <ATen/ATen.h>

#include <cmath>

namespace maxbatch::models {
namespace {

/// exp of more would be an image a thousand times as large as a feature's sixteen pixels.
double const kMostLogSize = std::log(1000.0 / 16);

struct Centred {
  explicit Centred(at::Tensor const& boxes)
      : width(boxes.select(-1, 2) - boxes.select(-1, 0)),
        height(boxes.select(-1, 3) - boxes.select(-1, 1)),
        x(boxes.select(-1, 0) + 0.5 * width),
        y(boxes.select(-1, 1) + 0.5 * height) {}

  at::Tensor width;
  at::Tensor height;
  at::Tensor x;
  at::Tensor y;
};

}  // namespace

at::Tensor BoxCoder::encode(at::Tensor const& boxes, at::Tensor const& from) const {
  Centred const to(boxes);
  Centred const start(from);
  return at::stack({weights[0] * (to.x - start.x) / start.width, weights[1] * (to.y - start.y) / start.height,
                    weights[2] * at::log(to.width / start.width), weights[3] * at::log(to.height / start.height)},
                   -1);
}

at::Tensor BoxCoder::decode(at::Tensor const& codes, at::Tensor const& from) const {
  Centred const start(from);
  auto const code = [&](std::int64_t i) {
    auto const weight = weights[static_cast<std::size_t>(i)];
    return weight == 1 ? codes.select(-1, i) : codes.select(-1, i) / weight;
  };
  auto const x = code(0) * start.width + start.x;
  auto const y = code(1) * start.height + start.y;
  auto const half_width = at::exp(at::clamp_max(code(2), kMostLogSize)).mul_(start.width).mul_(0.5);
  auto const half_height = at::exp(at::clamp_max(code(3), kMostLogSize)).mul_(start.height).mul_(0.5);
  return at::stack({x - half_width, y - half_height, x + half_width, y + half_height}, -1);
}

at::Tensor clip_boxes(at::Tensor const& boxes, at::Tensor const& limits) {
  std::vector<std::int64_t> shape(static_cast<std::size_t>(boxes.dim()), 1);
  shape.front() = limits.size(0);
  shape.back() = 4;
  return at::minimum(at::clamp_min(boxes, 0), limits.view(shape));
}

at::Tensor is_large(at::Tensor const& boxes, double side) {
  auto const sides = boxes.narrow(-1, 2, 2) - boxes.narrow(-1, 0, 2);
  return (sides >= side).all(-1);
}

}  // namespace maxbatch::models
