// Note [Requests for the driver]
// LibTorch opens libcuda.so.1 and NVRTC by name, and so does cuDNN's compiler with the driver. There is no driver here, and
// NVRTC has nothing to compile for, so those requests, and no others, are answered with this library. A library of ours
// *named* libcuda.so.1 would be found by everyone, the real NVRTC included, which then asks it for private interfaces and
// crashes. Every other request goes to the real dlopen as a tail call: it looks for files along the run path of whoever
// called it, which it knows by its return address. Hence a file of its own, always optimised: see CMakeLists.txt.
#include "dry_cuda/entry_point.hpp"
#include "dry_cuda/report/report_page.hpp"

#include <cstring>

#include <dlfcn.h>

namespace {

// noexcept, as dlopen is: a call that might throw needs this frame, and would be no tail call.
using Dlopen = void* (*)(char const*, int) noexcept;

bool begins_with(char const* text, char const* beginning) {
  return std::strncmp(text, beginning, std::strlen(beginning)) == 0;
}

bool is_of(char const* path, char const* library) { return path != nullptr && std::strstr(path, library) != nullptr; }

/// Whether the file is one of NVIDIA's libraries, which bring a static runtime along and fare well without a driver.
bool is_of_cuda(char const* path) {
  if (path == nullptr) { return false; }
  auto const* const slash = std::strrchr(path, '/');
  auto const* const name = slash == nullptr ? path : slash + 1;
  return begins_with(name, "libcu") || begins_with(name, "libnv") || begins_with(name, "libnccl");
}

/// Our own file, if the request is one that we answer; otherwise null.
char const* replacement(char const* name, void const* caller) {
  auto const is_driver = std::strcmp(name, "libcuda.so.1") == 0 || std::strcmp(name, "libcuda.so") == 0;
  auto const is_compiler = begins_with(name, "libnvrtc.so");
  if (!is_driver && !is_compiler) { return nullptr; }
  Dl_info asking{};
  if (dladdr(caller, &asking) == 0) { return nullptr; }
  auto const from_torch =
      is_of(asking.dli_fname, "libtorch") || is_of(asking.dli_fname, "libcaffe2") || is_of(asking.dli_fname, "libc10");
  if (!from_torch && !(is_driver && is_of(asking.dli_fname, "libcudnn"))) {
    if (is_driver && asking.dli_fname != nullptr && !is_of_cuda(asking.dli_fname)) {
      maxbatch::dry::remark(maxbatch::dry::Remark::asked_for_driver, asking.dli_fname);
    }
    return nullptr;
  }
  Dl_info ours{};
  return dladdr(reinterpret_cast<void*>(&replacement), &ours) == 0 ? nullptr : ours.dli_fname;
}

Dlopen const real_dlopen = reinterpret_cast<Dlopen>(dlsym(RTLD_NEXT, "dlopen"));

Dlopen real() { return real_dlopen != nullptr ? real_dlopen : reinterpret_cast<Dlopen>(dlsym(RTLD_NEXT, "dlopen")); }

}  // namespace

MAXBATCH_DRY_ENTRY void* dlopen(char const* name, int flags) noexcept {
  if (name != nullptr) {
    if (auto const* const ours = replacement(name, __builtin_return_address(0))) { name = ours; }
  }
  return real()(name, flags);
}
