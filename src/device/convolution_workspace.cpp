#include "convolution_workspace.hpp"

#include <array>
#include <cstdint>
#include <cstring>
#include <string_view>

#include <dlfcn.h>
#include <elf.h>
#include <execinfo.h>
#include <link.h>

namespace maxbatch::detail {
namespace {

constexpr int kDeepest = 128;

/// The exported function that holds `address`; empty: a function that is not exported.
std::string_view exported_function(void* address) {
  Dl_info info{};
  void* extra = nullptr;
  if (dladdr1(address, &info, &extra, RTLD_DL_SYMENT) == 0 || info.dli_sname == nullptr || extra == nullptr) {
    return {};
  }
  auto const* const symbol = static_cast<ElfW(Sym) const*>(extra);
  auto const offset = reinterpret_cast<std::uintptr_t>(address) - reinterpret_cast<std::uintptr_t>(info.dli_saddr);
  return offset < symbol->st_size ? std::string_view(info.dli_sname) : std::string_view{};
}

bool contains(std::string_view text, std::string_view part) { return text.find(part) != std::string_view::npos; }

}  // namespace

bool wants_convolution_workspace() noexcept {
  std::array<void*, kDeepest> frames{};
  auto const count = backtrace(frames.data(), kDeepest);
  for (int i = 0; i < count; ++i) {
    auto const name = exported_function(frames[static_cast<std::size_t>(i)]);
    // Mangled: at::detail::empty_cuda, empty_generic, empty_strided_cuda.
    if (contains(name, "2at6detail") && contains(name, "empty_")) { return false; }
    if (contains(name, "at6native") &&
        (contains(name, "cudnn_convolution") || contains(name, "convolution_backward"))) {
      return true;
    }
  }
  return false;
}

}  // namespace maxbatch::detail
