#include "join_levels.hpp"

#include <torch/torch.h>

namespace maxbatch::models {
namespace {

/// The part of a joined tensor that one map fills, seen as the map: [N, anchors, values, H, W].
at::Tensor part_of(at::Tensor const& joined, std::int64_t offset, at::IntArrayRef map, std::int64_t values) {
  auto const anchors = map[1] / values;
  return joined.narrow(1, offset, map[2] * map[3] * anchors)
      .view({map[0], map[2], map[3], anchors, values})
      .permute({0, 3, 4, 1, 2});
}

struct JoinLevels : torch::autograd::Function<JoinLevels> {
  static at::Tensor forward(torch::autograd::AutogradContext* context, at::TensorList maps, std::int64_t values) {
    std::vector<std::vector<std::int64_t>> shapes;
    std::int64_t total = 0;
    for (auto const& map : maps) {
      shapes.push_back(map.sizes().vec());
      total += map.size(1) / values * map.size(2) * map.size(3);
    }
    auto const type = maps[0].scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
    auto joined = at::empty({maps[0].size(0), total, values}, maps[0].options().dtype(type));
    std::int64_t offset = 0;
    for (auto const& map : maps) {
      auto const& shape = map.sizes();
      part_of(joined, offset, shape, values)
          .copy_(map.reshape({shape[0], shape[1] / values, values, shape[2], shape[3]}));
      offset += shape[1] / values * shape[2] * shape[3];
    }
    context->saved_data["shapes"] = shapes;
    context->saved_data["values"] = values;
    context->saved_data["type"] = static_cast<std::int64_t>(maps[0].scalar_type());
    return joined;
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list const& gradients) {
    auto const values = context->saved_data["values"].toInt();
    auto const type = static_cast<at::ScalarType>(context->saved_data["type"].toInt());
    auto const joined = gradients[0].contiguous();
    torch::autograd::variable_list of_maps;
    std::int64_t offset = 0;
    for (auto const& item : context->saved_data["shapes"].toListRef()) {
      auto const shape = item.toIntVector();
      // Contiguous as a map: what comes next is a convolution's gradient.
      auto of_map = at::empty(shape, joined.options().dtype(type));
      of_map.view({shape[0], shape[1] / values, values, shape[2], shape[3]})
          .copy_(part_of(joined, offset, shape, values));
      of_maps.push_back(of_map);
      offset += shape[1] / values * shape[2] * shape[3];
    }
    of_maps.emplace_back();  // the number of values has none
    return of_maps;
  }
};

}  // namespace

at::Tensor join_levels(std::vector<at::Tensor> const& maps, std::int64_t values) {
  return JoinLevels::apply(at::TensorList(maps), values);
}

}  // namespace maxbatch::models
