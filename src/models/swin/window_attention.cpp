#include "window_attention.hpp"

#include <torch/torch.h>

#include <cmath>
#include <optional>
#include <utility>
#include <vector>

namespace maxbatch::models {
namespace {

/// Sizes that forward and backward share.
struct Shape {
  Shape(at::Tensor const& tokens, std::int64_t channels, WindowGrid const& grid, std::int64_t heads_of_all)
      : batch(tokens.size(0)),
        rows(grid.padded[0] / grid.window[0]),
        columns(grid.padded[1] / grid.window[1]),
        height(grid.window[0]),
        width(grid.window[1]),
        heads(heads_of_all),
        depth(channels / heads_of_all),
        area(height * width),
        matrices(batch * rows * columns * heads),
        scale(1.0 / std::sqrt(static_cast<double>(depth))) {}

  std::int64_t batch, rows, columns;  // rows and columns of windows
  std::int64_t height, width;         // of a window
  std::int64_t heads, depth;
  std::int64_t area, matrices;
  double scale;
};

/// The same tensor [N, H, W, 3 * C], seen as [3, N, rows, columns, heads, height, width, depth].
at::Tensor by_head_view(at::Tensor const& qkv, Shape const& s) {
  return qkv.view({s.batch, s.rows, s.height, s.columns, s.width, 3, s.heads, s.depth})
      .permute({5, 0, 1, 3, 6, 2, 4, 7});
}

/// scale * a b, for stacks of matrices.
at::Tensor scaled_product(at::Tensor const& a, at::Tensor const& b, double scale) {
  auto product = at::empty({a.size(0), a.size(1), b.size(2)}, a.options());
  product.baddbmm_(a, b, /*beta=*/0, /*alpha=*/scale);
  return product;
}

/// [N, H, W, C] of [matrices, area, depth].
at::Tensor join_heads(at::Tensor const& out, Shape const& s) {
  return out.view({s.batch, s.rows, s.columns, s.heads, s.height, s.width, s.depth})
      .permute({0, 1, 4, 2, 5, 3, 6})
      .contiguous()
      .view({s.batch, s.rows * s.height, s.columns * s.width, s.heads * s.depth});
}

/// [matrices, area, depth] of [N, H, W, C].
at::Tensor unjoin_heads(at::Tensor const& joined, Shape const& s) {
  return joined.contiguous()
      .view({s.batch, s.rows, s.height, s.columns, s.width, s.heads, s.depth})
      .permute({0, 1, 3, 5, 2, 4, 6})
      .contiguous()
      .view({s.matrices, s.area, s.depth});
}

/// [heads, area * area], gathered in the order in which it is added.
at::Tensor bias_of(at::Tensor const& table, at::Tensor const& position) {
  return table.t().index_select(1, position.view(-1));
}

struct WindowAttentionFunction : torch::autograd::Function<WindowAttentionFunction> {
  static at::Tensor forward(torch::autograd::AutogradContext* context, at::Tensor const& qkv, at::Tensor const& table,
                            at::Tensor const& position, std::optional<at::Tensor> const& mask, WindowGrid const& grid,
                            std::int64_t heads) {
    Shape const s(qkv, qkv.size(3) / 3, grid, heads);
    auto const split = by_head_view(qkv, s).contiguous().view({3, s.matrices, s.area, s.depth});
    auto const values = split[2];
    auto probabilities = [&] {
      auto scores = scaled_product(split[0], split[1].transpose(1, 2), s.scale);
      auto bias = bias_of(table, position).view({1, s.heads, s.area, s.area});
      if (mask) { bias = bias + mask->unsqueeze(1); }
      auto const by_window = scores.view({-1, bias.size(0), s.heads, s.area, s.area});
      if (scores.scalar_type() == bias.scalar_type()) {
        by_window.add_(bias);
      } else {
        scores = (by_window + bias).view(scores.sizes());  // in float, as autocast adds
      }
      return at::_softmax(scores, -1, /*half_to_float=*/false);
    }();
    auto const out = at::bmm(probabilities.to(values.scalar_type()), values);
    context->save_for_backward({split, probabilities, table, position});
    context->saved_data["window"] = std::vector<std::int64_t>(grid.window.begin(), grid.window.end());
    context->saved_data["heads"] = heads;
    return join_heads(out, s);
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list const& gradients) {
    auto const saved = context->get_saved_variables();
    auto const& split = saved[0];
    auto const& probabilities = saved[1];
    auto const& table = saved[2];
    auto const& position = saved[3];
    auto const& gradient = gradients[0];
    WindowGrid grid;
    auto const window = context->saved_data["window"].toIntVector();
    grid.window = {window[0], window[1]};
    grid.padded = {gradient.size(1), gradient.size(2)};
    Shape const s(gradient, gradient.size(3), grid, context->saved_data["heads"].toInt());

    // Ordered so that little is alive at once: the whole function's tensors are kept until it returns.
    at::Tensor of_values;
    auto of_scores = [&] {
      auto of_out = unjoin_heads(gradient, s);
      auto of_probabilities = at::bmm(of_out, split[2].transpose(1, 2)).to(probabilities.scalar_type());
      of_values = at::bmm(probabilities.to(split.scalar_type()).transpose(1, 2), of_out);
      of_out.reset();
      return at::_softmax_backward_data(of_probabilities, probabilities, -1, probabilities.scalar_type());
    }();
    at::Tensor table_gradient;
    if (context->needs_input_grad(1)) {
      auto const of_bias = of_scores.view({-1, s.heads, s.area * s.area}).sum(0);
      table_gradient = at::zeros_like(table);
      table_gradient.t().index_add_(1, position.view(-1), of_bias);
    }
    of_scores = of_scores.to(split.scalar_type());
    auto qkv_gradient =
        at::empty({s.batch, s.rows * s.height, s.columns * s.width, 3 * s.heads * s.depth}, split.options());
    auto const by_head = by_head_view(qkv_gradient, s);
    auto const put = [&](std::int64_t which, at::Tensor of_one) {
      by_head[which].copy_(of_one.view(by_head[which].sizes()));
    };
    put(2, std::move(of_values));
    put(0, scaled_product(of_scores, split[1], s.scale));
    put(1, scaled_product(of_scores.transpose(1, 2), split[0], s.scale));
    return {qkv_gradient, table_gradient, at::Tensor(), at::Tensor(), at::Tensor(), at::Tensor()};
  }
};

}  // namespace

at::Tensor window_attention(at::Tensor const& qkv, at::Tensor const& bias_table, WindowTables const& tables,
                            WindowGrid const& grid, std::int64_t heads) {
  auto const mask = tables.mask.defined() ? std::make_optional(tables.mask) : std::nullopt;
  return WindowAttentionFunction::apply(qkv, bias_table, tables.position, mask, grid, heads);
}

at::Tensor fused_window_attention(at::Tensor const& qkv, at::Tensor const& bias_table, WindowTables const& tables,
                                  std::int64_t heads) {
  auto const batch = qkv.size(0);
  auto const windows = qkv.size(1);
  auto const area = qkv.size(2);
  auto const channels = qkv.size(3) / 3;
  auto const depth = channels / heads;
  auto const bias = bias_of(bias_table, tables.position).view({1, heads, area, area});
  if (!tables.mask.defined()) {
    auto const qkv_of_windows = qkv.view({batch * windows, area, 3, heads, depth}).permute({2, 0, 3, 1, 4}).unbind(0);
    return at::scaled_dot_product_attention(qkv_of_windows[0], qkv_of_windows[1], qkv_of_windows[2], bias)
        .transpose(1, 2)
        .reshape({batch, windows, area, channels});
  }
  // Windows count as heads, so that each window's mask is there once, not once an image.
  auto const masked = (bias + tables.mask.unsqueeze(1)).view({1, windows * heads, area, area});
  auto const split = qkv.view({batch, windows, area, 3, heads, depth})
                         .permute({3, 0, 1, 4, 2, 5})
                         .contiguous()
                         .view({3, batch, windows * heads, area, depth})
                         .unbind(0);
  return at::scaled_dot_product_attention(split[0], split[1], split[2], masked)
      .transpose(1, 2)  // how the fused kernels lay it out, so that these are views
      .reshape({batch, area, windows, channels});
}

}  // namespace maxbatch::models
