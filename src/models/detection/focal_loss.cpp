#include "focal_loss.hpp"

#include "../cuda_kernels.hpp"
#include "focal_math.hpp"
#include "kernel_launch.hpp"

#include <ATen/Dispatch.h>
#include <ATen/Parallel.h>
#include <torch/torch.h>

#include <algorithm>

namespace maxbatch::models {
namespace {

constexpr std::int64_t kPart = 1 << 14;    // logits that are added up together
constexpr std::int64_t kMostParts = 1024;  // of an image

std::int64_t parts_of(at::Tensor const& logits) {
  return std::clamp<std::int64_t>(logits.size(1) * logits.size(2) / kPart, 1, kMostParts);
}

/// [N, parts]: the sum of every so many logits' losses. Parts are the same whatever the number of threads.
at::Tensor sums_of(at::Tensor const& logits, at::Tensor const& labels) {
  auto const images = logits.size(0);
  auto const anchors = logits.size(1);
  auto const classes = logits.size(2);
  auto const parts = parts_of(logits);
  auto const sums = at::zeros({images, parts}, logits.options().requires_grad(false));
  if (logits.numel() == 0) { return sums; }
  if (logits.is_cuda()) {
    with_cuda_kernels("the focal loss", logits, [&](auto stream) {
      AT_DISPATCH_FLOATING_TYPES(logits.scalar_type(), "focal_loss", [&] {
        check_launch(launch_focal_loss<scalar_t>(
            logits.const_data_ptr<scalar_t>(), labels.const_data_ptr<std::int64_t>(), images, anchors,
            static_cast<std::int32_t>(classes), parts, sums.data_ptr<scalar_t>(), stream));
      });
    });
    return sums;
  }
  AT_DISPATCH_FLOATING_TYPES(logits.scalar_type(), "focal_loss", [&] {
    auto const* const x = logits.const_data_ptr<scalar_t>();
    auto const* const label_of = labels.const_data_ptr<std::int64_t>();
    auto* const sum_of = sums.data_ptr<scalar_t>();
    at::parallel_for(0, images * parts, 1, [&](std::int64_t begin, std::int64_t end) {
      for (auto i = begin; i < end; ++i) {
        auto const image = i / parts;
        auto const part = i % parts;
        auto sum = scalar_t(0);
        for (auto a = anchors * part / parts; a < anchors * (part + 1) / parts; ++a) {
          auto const label = label_of[image * anchors + a];
          if (label < -1) { continue; }
          auto const* const row = x + (image * anchors + a) * classes;
          for (std::int64_t c = 0; c < classes; ++c) { sum += focal_loss_of(row[c], c == label); }
        }
        sum_of[i] = sum;
      }
    });
  });
  return sums;
}

at::Tensor gradient_of(at::Tensor const& logits, at::Tensor const& labels, at::Tensor const& of_images) {
  auto const images = logits.size(0);
  auto const anchors = logits.size(1);
  auto const classes = logits.size(2);
  auto gradient = at::empty_like(logits);
  if (logits.numel() == 0) { return gradient; }
  if (logits.is_cuda()) {
    with_cuda_kernels("the focal loss", logits, [&](auto stream) {
      AT_DISPATCH_FLOATING_TYPES(logits.scalar_type(), "focal_gradient", [&] {
        check_launch(launch_focal_gradient<scalar_t>(
            logits.const_data_ptr<scalar_t>(), labels.const_data_ptr<std::int64_t>(),
            of_images.const_data_ptr<scalar_t>(), images, anchors, static_cast<std::int32_t>(classes), kMostParts,
            gradient.data_ptr<scalar_t>(), stream));
      });
    });
    return gradient;
  }
  AT_DISPATCH_FLOATING_TYPES(logits.scalar_type(), "focal_gradient", [&] {
    auto const* const x = logits.const_data_ptr<scalar_t>();
    auto const* const label_of = labels.const_data_ptr<std::int64_t>();
    auto const* const factor_of = of_images.const_data_ptr<scalar_t>();
    auto* const out = gradient.data_ptr<scalar_t>();
    at::parallel_for(0, images * anchors, kPart / classes + 1, [&](std::int64_t begin, std::int64_t end) {
      for (auto a = begin; a < end; ++a) {
        for (std::int64_t c = 0; c < classes; ++c) {
          auto const i = a * classes + c;
          out[i] = label_of[a] < -1 ? scalar_t(0) : factor_of[a / anchors] * focal_gradient_of(x[i], c == label_of[a]);
        }
      }
    });
  });
  return gradient;
}

struct FocalLoss : torch::autograd::Function<FocalLoss> {
  static at::Tensor forward(torch::autograd::AutogradContext* context, at::Tensor const& logits,
                            at::Tensor const& labels) {
    auto const x = logits.contiguous();
    auto const of_anchors = labels.contiguous();
    context->save_for_backward({x, of_anchors});
    return sums_of(x, of_anchors).sum(1);
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list const& gradients) {
    auto const saved = context->get_saved_variables();
    return {gradient_of(saved[0], saved[1], gradients[0].contiguous()), at::Tensor()};
  }
};

}  // namespace

at::Tensor sigmoid_focal_loss(at::Tensor const& logits, at::Tensor const& labels) {
  TORCH_CHECK(logits.dim() == 3 && labels.dim() == 2 && labels.size(0) == logits.size(0) &&
                  labels.size(1) == logits.size(1) && labels.scalar_type() == at::kLong,
              "sigmoid_focal_loss: labels ", labels.sizes(), " for logits ", logits.sizes());
  return FocalLoss::apply(logits, labels);
}

}  // namespace maxbatch::models
