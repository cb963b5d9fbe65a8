#pragma once

// Arithmetic of the focal loss that the CPU's code and the kernels share. Knows neither LibTorch nor CUDA's headers.

#include "box_math.hpp"

#include <cmath>

namespace maxbatch::models {

constexpr double kFocalAlpha = 0.25;  // weight of what is there; of what is not, the rest

/// Logistic function and -log of its complement, without overflow.
template <typename T>
struct Logistic {
  T probability;
  T penalty;
};

template <typename T>
MAXBATCH_HOST_DEVICE Logistic<T> logistic(T x) {
  using std::exp;
  using std::log1p;
  T const small = exp(x < T(0) ? x : -x);
  T const larger = T(1) / (T(1) + small);
  return {x < T(0) ? small * larger : larger, (x > T(0) ? x : T(0)) + log1p(small)};
}

/// Of one logit. What is there is the mirror image of what is not.
template <typename T>
MAXBATCH_HOST_DEVICE T focal_loss_of(T x, bool is_there) {
  auto const [p, penalty] = logistic(is_there ? -x : x);
  return static_cast<T>(is_there ? kFocalAlpha : 1 - kFocalAlpha) * p * p * penalty;
}

template <typename T>
MAXBATCH_HOST_DEVICE T focal_gradient_of(T x, bool is_there) {
  auto const [p, penalty] = logistic(is_there ? -x : x);
  T const slope = p * p * (T(2) * (T(1) - p) * penalty + p);
  return is_there ? static_cast<T>(-kFocalAlpha) * slope : static_cast<T>(1 - kFocalAlpha) * slope;
}

}  // namespace maxbatch::models
