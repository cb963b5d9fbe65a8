#pragma once

#include "window_grid.hpp"

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace maxbatch::models {

/// Attention within windows, written out, with a gradient of its own.
///
/// Projections act on single tokens, so nothing needs to be put into windows before them: the one copy that gives each
/// head its own matrices does it on the way, and the one that joins the heads again puts the tokens back. Kept for the
/// backward pass: queries, keys, values and the softmax, and no second copy of any. Types: matrices are of qkv's type;
/// bias, softmax and their gradients are float, as they are under autocast.
///
/// qkv: [N, H, W, 3 * C] with the grid's padded size, contiguous.  bias_table: [rows, heads].
/// Returns [N, H, W, C].
at::Tensor window_attention(at::Tensor const& qkv, at::Tensor const& bias_table, WindowTables const& tables,
                            WindowGrid const& grid, std::int64_t heads);

/// The same by LibTorch's scaled_dot_product_attention.
/// qkv: [N, windows, tokens, 3 * C].  Returns [N, windows, tokens, C]; of a shifted grid (one with a mask)
/// [N, tokens, windows, C], since windows count as heads there.
at::Tensor fused_window_attention(at::Tensor const& qkv, at::Tensor const& bias_table, WindowTables const& tables,
                                  std::int64_t heads);

}  // namespace maxbatch::models
