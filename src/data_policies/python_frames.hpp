#pragma once

#include "call_place.hpp"

#include <cstddef>

namespace maxbatch::dry {

/// The Python frames of this thread, the innermost first, without those of the package torch. Empty where the process has no
/// Python, Python does not know the thread, or nothing of Python is running on it.
CallPlace python_frames(std::size_t most);

}  // namespace maxbatch::dry
