#pragma once

#include "memory_account.hpp"

#include <string>

namespace maxbatch::detail {

/// The text of the exception for a refused request. "out of memory" and "Tried to allocate" are in it, as in the texts of
/// LibTorch's own allocators, so that programs that look for those find them.
std::string refusal_text(Refusal const& refusal);

}  // namespace maxbatch::detail
