#include "block.hpp"

#include "drop_path.hpp"
#include "token_order.hpp"
#include "window_attention.hpp"

#include <torch/torch.h>

namespace maxbatch::models {
namespace {

/// [N, windows, tokens, C] of [N, H, W, C].
at::Tensor into_windows(at::Tensor const& x, WindowGrid const& grid) {
  auto const rows = grid.padded[0] / grid.window[0];
  auto const columns = grid.padded[1] / grid.window[1];
  return x.view({x.size(0), rows, grid.window[0], columns, grid.window[1], x.size(3)})
      .permute({0, 1, 3, 2, 4, 5})
      .reshape({x.size(0), rows * columns, grid.tokens_in_window(), x.size(3)});
}

at::Tensor out_of_windows(at::Tensor const& windows, WindowGrid const& grid) {
  auto const rows = grid.padded[0] / grid.window[0];
  auto const columns = grid.padded[1] / grid.window[1];
  auto const channels = windows.size(3);
  return windows.view({windows.size(0), rows, columns, grid.window[0], grid.window[1], channels})
      .permute({0, 1, 3, 2, 4, 5})
      .reshape({windows.size(0), grid.padded[0], grid.padded[1], channels});
}

}  // namespace

// Children before own tensors, here and below: the order in which Python's `model.cuda()` asks for memory.
SwinAttention::SwinAttention(std::int64_t channels, std::int64_t heads_, WindowTables const& tables,
                             WindowGrid::Pair window, Attention kind_, c10::Device device)
    : heads(heads_), kind(kind_) {
  qkv = register_module("qkv", std::make_shared<TimmLinear>(channels, 3 * channels, true, device));
  proj = register_module("proj", std::make_shared<TimmLinear>(channels, channels, true, device));
  relative_position_bias_table =
      register_parameter("relative_position_bias_table",
                         at::empty({(2 * window[0] - 1) * (2 * window[1] - 1), heads}, device).normal_(0, 0.02));
  register_buffer("relative_position_index", tables.position);
}

at::Tensor SwinAttention::forward(at::Tensor const& x, WindowTables const& tables, WindowGrid const& grid) const {
  if (kind == Attention::written_out) {
    return proj->forward(window_attention(qkv->forward(x), relative_position_bias_table, tables, grid, heads));
  }
  auto const qkv_of_windows = qkv->forward(into_windows(x, grid));
  auto out = proj->forward(fused_window_attention(qkv_of_windows, relative_position_bias_table, tables, heads));
  if (grid.is_shifted()) { out = out.transpose(1, 2); }  // see fused_window_attention
  return out_of_windows(out, grid);
}

SwinMlp::SwinMlp(std::int64_t channels, std::int64_t hidden, c10::Device device) {
  fc1 = register_module("fc1", std::make_shared<TimmLinear>(channels, hidden, true, device));
  fc2 = register_module("fc2", std::make_shared<TimmLinear>(hidden, channels, true, device));
}

SwinBlock::SwinBlock(std::int64_t channels, std::int64_t heads, std::int64_t mlp_ratio, bool shifted,
                     WindowGrid const& grid, WindowTables const& tables, Attention kind, c10::Device device)
    : shifted_(shifted), grid_(grid), tables_(tables) {
  norm1_ = register_module("norm1", std::make_shared<TimmNorm>(channels, device));
  attn_ = register_module("attn", std::make_shared<SwinAttention>(channels, heads, tables, grid.window, kind, device));
  norm2_ = register_module("norm2", std::make_shared<TimmNorm>(channels, device));
  mlp_ = register_module("mlp", std::make_shared<SwinMlp>(channels, mlp_ratio * channels, device));
  if (grid.is_shifted()) {
    register_buffer("attn_mask", tables_.mask);
    register_buffer("token_roll", tables_.roll);
    register_buffer("token_unroll", tables_.unroll);
  }
}

at::Tensor SwinBlock::forward(at::Tensor x, at::Tensor const& attention_factor, at::Tensor const& mlp_factor) const {
  x = add_branch(x, attend(norm1_->forward(x)), attention_factor);
  return add_branch(x, mlp_->forward(norm2_->forward(x)), mlp_factor);
}

at::Tensor SwinBlock::attend(at::Tensor x) const {
  auto const batch = x.size(0);
  auto const channels = x.size(3);
  WindowGrid::Pair const size{x.size(1), x.size(2)};
  auto grid = grid_;
  auto tables = tables_;
  if (size != grid_.size) {
    grid = WindowGrid::of(size, grid_.window, shifted_);
    tables.mask.reset();
    if (grid.is_shifted()) { fill_shift_tables(tables, grid, x.device()); }
  }

  if (grid.is_shifted()) {
    x = reorder_tokens(x.view({batch, size[0] * size[1], channels}), tables.roll, tables.unroll)
            .view({batch, size[0], size[1], channels});
  }
  if (grid.is_padded()) {
    x = at::constant_pad_nd(x, {0, 0, 0, grid.padded[1] - size[1], 0, grid.padded[0] - size[0]});
  }
  x = attn_->forward(x, tables, grid);
  if (grid.is_padded()) { x = x.slice(1, 0, size[0]).slice(2, 0, size[1]); }
  if (grid.is_shifted()) {
    x = reorder_tokens(x.reshape({batch, size[0] * size[1], channels}), tables.unroll, tables.roll)
            .view({batch, size[0], size[1], channels});
  }
  return x;
}

}  // namespace maxbatch::models
