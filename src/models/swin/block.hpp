#pragma once

#include "../timm_layers.hpp"
#include "window_grid.hpp"
#include <maxbatch/models/swin_transformer.hpp>

#include <memory>

namespace maxbatch::models {

struct SwinAttention : torch::nn::Module {
  SwinAttention(std::int64_t channels, std::int64_t heads, WindowTables const& tables, WindowGrid::Pair window,
                Attention kind, c10::Device device);

  /// [N, H, W, C] to the same, of a map that fills its grid.
  at::Tensor forward(at::Tensor const& x, WindowTables const& tables, WindowGrid const& grid) const;

  std::int64_t heads;
  Attention kind;
  std::shared_ptr<TimmLinear> qkv;
  std::shared_ptr<TimmLinear> proj;
  at::Tensor relative_position_bias_table;
};

struct SwinMlp : torch::nn::Module {
  SwinMlp(std::int64_t channels, std::int64_t hidden, c10::Device device);
  at::Tensor forward(at::Tensor const& x) const { return fc2->forward(at::gelu(fc1->forward(x))); }

  std::shared_ptr<TimmLinear> fc1;
  std::shared_ptr<TimmLinear> fc2;
};

/// Attention in windows and a perceptron, each added to what came in.
struct SwinBlock : torch::nn::Module {
  SwinBlock(std::int64_t channels, std::int64_t heads, std::int64_t mlp_ratio, bool shifted, WindowGrid const& grid,
            WindowTables const& tables, Attention kind, c10::Device device);

  /// x: [N, H, W, C].  Factors: see add_branch.
  at::Tensor forward(at::Tensor x, at::Tensor const& attention_factor, at::Tensor const& mlp_factor) const;

 private:
  at::Tensor attend(at::Tensor x) const;

  bool shifted_;
  WindowGrid grid_;      ///< of the image size that the model was built for
  WindowTables tables_;  ///< of grid_
  std::shared_ptr<TimmNorm> norm1_;
  std::shared_ptr<SwinAttention> attn_;
  std::shared_ptr<TimmNorm> norm2_;
  std::shared_ptr<SwinMlp> mlp_;
};

}  // namespace maxbatch::models
