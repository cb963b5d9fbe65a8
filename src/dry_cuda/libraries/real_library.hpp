#pragma once

namespace maxbatch::dry {

/// A library of NVIDIA's that LibTorch has loaded behind ours. Some of its functions need no device, and are asked.
/// Threads: any.
class RealLibrary {
 public:
  /// `soname` must live for ever (a literal).
  explicit constexpr RealLibrary(char const* soname) : soname_(soname) {}

  /// The library's own function of this name. Ends the program with a sentence when there is none: the caller's own answer
  /// rests on it, and CUDA's interfaces have no way to say so.
  template <typename Function>
  Function function(char const* name) const {
    return reinterpret_cast<Function>(address(name));
  }

 private:
  void* address(char const* name) const;

  char const* soname_;
};

// CUDA 13's sonames: the headers beside these libraries are the ones that we were built with.
inline constexpr RealLibrary kCublas{"libcublas.so.13"};
inline constexpr RealLibrary kCublasLt{"libcublasLt.so.13"};
inline constexpr RealLibrary kCudnn{"libcudnn.so.9"};
inline constexpr RealLibrary kCusparse{"libcusparse.so.12"};

}  // namespace maxbatch::dry

/// The real function behind our entry point NAME, looked up once: MAXBATCH_DRY_REAL(kCudnn, cudnnGetVersion)().
// NOLINTBEGIN(bugprone-macro-parentheses): the parameter is a name
#define MAXBATCH_DRY_REAL(library, name)                                        \
  ([]() -> decltype(&name) {                                                    \
    static auto const real_##name = (library).function<decltype(&name)>(#name); \
    return real_##name;                                                         \
  }())
// NOLINTEND(bugprone-macro-parentheses)
