#pragma once

#include <ATen/core/Tensor.h>

namespace maxbatch::models {

/// linear(layer_norm(x)) without bias, of which the backward pass keeps x and the norm's statistics: the normalised
/// tensor is made again, one cheap kernel. For layers whose input is the largest tensor around.
/// x: [..., C].  weight: [out, C].  Types: as of layer_norm and linear, under autocast too.
at::Tensor norm_linear(at::Tensor const& x, at::Tensor const& norm_weight, at::Tensor const& norm_bias,
                       at::Tensor const& weight);

}  // namespace maxbatch::models
