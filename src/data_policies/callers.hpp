#pragma once

#include "call_place.hpp"

#include <string>

namespace maxbatch::dry {

/// Who called the operator that this thread is in: Python's frames where the thread runs Python, otherwise the functions on
/// its stack; LibTorch's own are left out. At most the innermost 32. Takes Python's lock, but never on a thread that Python
/// does not know.
CallPlace find_callers();

/// The innermost frame for people: "FILE:LINE in FUNCTION", "FUNCTION in FILE", or nothing.
std::string place_text(CallPlace const& place);

}  // namespace maxbatch::dry
