#pragma once

#include <dlfcn.h>

namespace maxbatch::dry {

/// CUDA as this process has loaded it, with a card behind it or dry: nothing here links it, so that a program with a
/// LibTorch for the CPU has the same code. `name` must be one of CUDA's public functions.  Returns null where it is not there.
template <typename Function>
Function loaded_cuda(char const* name) {
  return reinterpret_cast<Function>(dlsym(RTLD_DEFAULT, name));
}

}  // namespace maxbatch::dry

/// The loaded function NAME, looked up once, or null.
// NOLINTBEGIN(bugprone-macro-parentheses): the parameter is a name
#define MAXBATCH_LOADED(name)                                                             \
  ([]() -> decltype(&name) {                                                              \
    static auto const loaded_##name = maxbatch::dry::loaded_cuda<decltype(&name)>(#name); \
    return loaded_##name;                                                                 \
  }())
// NOLINTEND(bugprone-macro-parentheses)
