// Looks at what a process has loaded by the time that it ends, or first makes a card: libraries that explain why it never
// came to the dry card, or that nobody has compared with a real one.
#include "loaded_libraries.hpp"

#include "dry_cuda/report/report_page.hpp"

#include <array>
#include <cstdint>
#include <cstdio>
#include <cstring>

#include <dlfcn.h>
#include <link.h>

namespace maxbatch::dry {
namespace {

/// What we stand in for, and the LibTorch whose recordings from a card our answers were compared with.
constexpr char const* kRuntime = "libcudart.so.13";
constexpr int kLibtorchMajor = 2;
constexpr int kLibtorchMinor = 11;

bool begins_with(char const* text, char const* beginning) {
  return std::strncmp(text, beginning, std::strlen(beginning)) == 0;
}

void look_at_libtorch(char const* path) {
  void* const library = dlopen(path, RTLD_LAZY | RTLD_NOLOAD);
  if (library == nullptr) { return; }
  // LibTorch's public C interface, torch/csrc/inductor/aoti_torch/c/shim.h: major, minor, patch in bytes from the top.
  auto* const version = reinterpret_cast<std::uint64_t (*)()>(dlsym(library, "aoti_torch_abi_version"));
  if (version != nullptr) {
    auto const number = version();
    auto const major = static_cast<int>(number >> 56 & 0xff);
    auto const minor = static_cast<int>(number >> 48 & 0xff);
    if (major != kLibtorchMajor || minor != kLibtorchMinor) {
      std::array<char, 32> text{};
      std::snprintf(text.data(), text.size(), "%d.%d", major, minor);
      remark(Remark::other_libtorch, text.data());
    }
  } else {
    remark(Remark::other_libtorch, "before 2.10");
  }
  dlclose(library);
}

int look_at(dl_phdr_info* info, std::size_t, void*) {
  if (info->dlpi_name == nullptr) { return 0; }
  auto const* const slash = std::strrchr(info->dlpi_name, '/');
  auto const* const name = slash == nullptr ? info->dlpi_name : slash + 1;
  if (begins_with(name, "libcudart.so.") && !begins_with(name, kRuntime)) { remark(Remark::other_runtime, name); }
  if (std::strcmp(name, "libtorch_cpu.so") == 0) { look_at_libtorch(info->dlpi_name); }
  return 0;
}

__attribute__((destructor)) void look_at_the_end() { look_at_loaded_libraries(); }

}  // namespace

void look_at_loaded_libraries() { dl_iterate_phdr(look_at, nullptr); }

}  // namespace maxbatch::dry
