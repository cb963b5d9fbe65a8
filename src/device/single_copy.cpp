#include "single_copy.hpp"

#include <ATen/core/dispatch/Dispatcher.h>

#include <atomic>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <string>

#include <dlfcn.h>

namespace maxbatch::detail {
namespace {

constexpr char const* kMark = "maxbatch::_the_copy_of_this_process";

/// The file that this code was loaded from.
std::string own_file() {
  Dl_info info{};
  if (dladdr(reinterpret_cast<void*>(&claim_process), &info) == 0 || info.dli_fname == nullptr) { return "unknown"; }
  return info.dli_fname;
}

void stay_loaded(std::string const& file) {
  // Fails for a program's own code, which stays anyway.
  if (dlopen(file.c_str(), RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE) == nullptr) { dlerror(); }
}

[[noreturn]] void refuse(std::string const& first) {
  throw std::logic_error("Another copy of maxbatch in this process has installed its allocator (" + first +
                         "; this one is in " + own_file() +
                         "). Link all parts of the program to the one shared library maxbatch::maxbatch, and open it "
                         "once.");
}

std::optional<std::string> who_marked() {
  auto const found = c10::Dispatcher::singleton().findSchema({kMark, ""});
  return found ? std::make_optional(found->debug()) : std::nullopt;
}

}  // namespace

void claim_process() {
  static std::mutex mutex;
  // Never destroyed: the mark must outlast everything that may still look. Atomic, so that the compiler keeps the pointer
  // itself, by which leak checkers find what it points to.
  static std::atomic<c10::RegistrationHandleRAII*> mark{nullptr};
  std::lock_guard<std::mutex> const lock(mutex);
  if (mark != nullptr) { return; }
  if (auto const first = who_marked()) { refuse(*first); }
  auto const file = own_file();
  try {
    mark = new c10::RegistrationHandleRAII(
        c10::Dispatcher::singleton().registerDef(c10::FunctionSchema(kMark, "", {}, {}), "in " + file));
  } catch (c10::Error const&) {  // another copy was faster, just now
    refuse(who_marked().value_or("in an unknown place"));
  }
  stay_loaded(file);
}

}  // namespace maxbatch::detail
