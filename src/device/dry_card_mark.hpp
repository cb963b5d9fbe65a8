#pragma once

namespace maxbatch::detail {

/// Whether this process's CUDA has no device behind it: a symbol that maxbatch::dry_cuda exports and nothing else does
/// (src/dry_cuda/activation/environment.cpp).
bool is_on_dry_card() noexcept;

}  // namespace maxbatch::detail
