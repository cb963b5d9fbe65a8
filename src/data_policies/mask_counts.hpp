#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>

namespace maxbatch::dry {

/// How full masks were said to be, as long as they live and nobody writes them. Not thread-safe: sites.cpp has a lock.
namespace mask_counts {

void keep(at::Tensor const& mask, std::int64_t count);
std::optional<std::int64_t> find(at::Tensor const& mask);

}  // namespace mask_counts
}  // namespace maxbatch::dry
