#pragma once

#include <ATen/core/Tensor.h>

namespace maxbatch::models {

/// Sigmoid focal loss (arXiv:1708.02002, alpha 0.25, gamma 2) of each image, summed over anchors and classes, without a
/// tensor of its size: the backward pass keeps the logits and makes their gradient in one go.
///
/// logits: [N, A, classes].  labels: [N, A] int64: the class of each anchor, -1: none of them (all are wrong), below:
/// the anchor does not count.  Returns [N].  Gradients go to the logits.  Synchronises: no.
at::Tensor sigmoid_focal_loss(at::Tensor const& logits, at::Tensor const& labels);

}  // namespace maxbatch::models
