#pragma once

namespace maxbatch::models {

/// How attention is computed. The results are the same up to rounding; memory and speed are not.
enum class Attention {
  written_out,  ///< scores, softmax and product as tensors: what timm's Swin and ViT do where they are told so
  fused         ///< LibTorch's scaled_dot_product_attention, which picks a fused kernel where it has one
};

}  // namespace maxbatch::models
