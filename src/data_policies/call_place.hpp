#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace maxbatch::dry {

/// One function on the way to an operator.
struct CallFrame {
  std::string file;       ///< of a Python frame; otherwise the program or library that holds the function
  std::int64_t line = 0;  ///< of a Python frame; otherwise 0
  std::string function;   ///< with its class or namespace, without parameters; may be empty in C++
};

/// Who called an operator, the innermost frame first; LibTorch's own are left out. Empty on autograd's threads.
using CallPlace = std::vector<CallFrame>;

}  // namespace maxbatch::dry
