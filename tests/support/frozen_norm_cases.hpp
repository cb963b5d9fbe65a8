#pragma once

#include "models/layers/frozen_norm.hpp"

#include <torch/torch.h>

#include <gtest/gtest.h>

#include <limits>
#include <string>

namespace maxbatch::test {

struct FrozenNormCase {
  FrozenNormCase(at::ScalarType type, at::Device device) {
    auto const of_channel = at::device(device).dtype(type == at::kDouble ? at::kDouble : at::kFloat);
    statistics.weight = at::randn({5}, of_channel);
    statistics.bias = at::randn({5}, of_channel);
    statistics.mean = at::randn({5}, of_channel);
    statistics.variance = at::rand({5}, of_channel) + 0.1;
    statistics.epsilon = 1e-3;
    x = at::randn({3, 5, 37, 61}, at::device(device)).to(type);
    added = at::randn({3, 5, 37, 61}, at::device(device)).to(type);
    weights = at::randn({3, 5, 37, 61}, at::device(device)).to(type);
  }

  models::FrozenStatistics statistics;
  at::Tensor x;
  at::Tensor added;
  at::Tensor weights;
};

/// Values and gradients of the operator, beside those of the formula in at least float.
inline void expect_frozen_norm_as_written_out(at::ScalarType type, bool relu, bool adds, at::Device device) {
  FrozenNormCase const tried(type, device);
  auto const& statistics = tried.statistics;
  auto const x = tried.x.clone().requires_grad_(true);
  auto const added = tried.added.clone().requires_grad_(true);
  // The operator overwrites what it is given, which a leaf forbids.
  auto const ours = models::frozen_norm(x * 1, adds ? added : at::Tensor(), statistics, relu);
  EXPECT_EQ(ours.scalar_type(), type);
  (ours * tried.weights).sum().backward();

  auto const computed = type == at::kDouble ? at::kDouble : at::kFloat;
  auto const true_x = tried.x.to(computed).clone().requires_grad_(true);
  auto const true_added = tried.added.to(computed).clone().requires_grad_(true);
  auto const column = [](at::Tensor const& of_channel) { return of_channel.view({-1, 1, 1}); };
  auto const scale = column(statistics.weight) / (column(statistics.variance) + statistics.epsilon).sqrt();
  auto truth = (true_x - column(statistics.mean)) * scale + column(statistics.bias);
  if (adds) { truth = truth + true_added; }
  if (relu) { truth = truth.relu(); }
  (truth * tried.weights.to(computed)).sum().backward();

  auto const bound = type == at::kDouble ? 1e-12 : type == at::kFloat ? 1e-5 : 2e-2;
  EXPECT_TRUE(at::allclose(ours.to(computed), truth, bound, bound));
  if (type == at::kBFloat16 || type == at::kHalf) {
    // A result that rounds to 0 has no gradient: look at most of them.
    EXPECT_LT(((x.grad().to(computed) - true_x.grad()).abs() > bound * (1 + true_x.grad().abs()))
                  .to(at::kFloat)
                  .mean()
                  .item<float>(),
              1e-3);
  } else {
    EXPECT_TRUE(at::allclose(x.grad(), true_x.grad(), bound, bound));
    if (adds) { EXPECT_TRUE(at::allclose(added.grad(), true_added.grad(), bound, bound)); }
  }
}

}  // namespace maxbatch::test
