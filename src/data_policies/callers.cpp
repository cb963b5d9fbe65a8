#include "callers.hpp"

#include "python_frames.hpp"

#include <array>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <utility>

#include <cxxabi.h>
#include <dlfcn.h>
#include <execinfo.h>
#include <unistd.h>

namespace maxbatch::dry {
namespace {

constexpr std::size_t kMostFrames = 32;

/// "ns::f" of "ns::f(int, char)"; what a template's instance returns goes, too.
std::string without_parameters(std::string name) {
  constexpr std::string_view kUnnamed = "(anonymous namespace)";
  for (auto at = name.find(kUnnamed); at != std::string::npos; at = name.find(kUnnamed)) {
    name.replace(at, kUnnamed.size(), "{unnamed}");
  }
  constexpr std::string_view kCall = "operator()";
  auto const call = name.rfind(kCall);
  auto const parameters = name.find('(', call == std::string::npos ? 0 : call + kCall.size());
  return name.substr(0, parameters);
}

std::string function_name(Dl_info const& info, void const* address, std::string_view file) {
  if (info.dli_sname == nullptr) {
    // What addr2line takes, behind the program's name.
    std::array<char, 32> offset{};
    std::snprintf(offset.data(), offset.size(), "+0x%zx",
                  reinterpret_cast<std::uintptr_t>(address) - reinterpret_cast<std::uintptr_t>(info.dli_fbase));
    return std::string(file.substr(file.rfind('/') + 1)) + offset.data();
  }
  auto status = 0;
  std::unique_ptr<char, decltype(&std::free)> const name(abi::__cxa_demangle(info.dli_sname, nullptr, nullptr, &status),
                                                         &std::free);
  return without_parameters(status == 0 ? name.get() : info.dli_sname);
}

/// LibTorch, ourselves, and what starts threads and programs.
bool is_between(std::string_view file) {
  auto const name = file.substr(file.rfind('/') + 1);
  for (std::string_view const library : {"libtorch", "libc10", "libmaxbatch_d", "libc.so", "libstdc++", "libpython"}) {
    if (name.substr(0, library.size()) == library) { return true; }
  }
  return false;
}

/// LibTorch's own, compiled into the caller's program.
bool is_libtorch(std::string_view function) {
  for (std::string_view const space : {"at::", "c10::", "torch::", "std::"}) {
    if (function.substr(0, space.size()) == space) { return true; }
  }
  return false;
}

/// Nothing for those that are between the caller and the operator.
std::optional<CallFrame> describe(void const* address) {
  Dl_info info{};
  if (dladdr(address, &info) == 0 || info.dli_fname == nullptr || is_between(info.dli_fname)) { return std::nullopt; }
  auto function = function_name(info, address, info.dli_fname);
  if (function == "_start" || is_libtorch(function)) { return std::nullopt; }
  return CallFrame{info.dli_fname, 0, std::move(function)};
}

CallPlace functions_on_stack() {
  // Looking an address up takes far longer than walking the stack.
  thread_local std::unordered_map<void const*, std::optional<CallFrame>> known;
  std::array<void*, 64> addresses{};
  auto const count = backtrace(addresses.data(), static_cast<int>(addresses.size()));
  CallPlace place;
  for (int i = 0; i < count && place.size() < kMostFrames; ++i) {
    // One byte back: behind a call that does not return stands another function.
    auto const* const address = static_cast<char const*>(addresses.at(static_cast<std::size_t>(i))) - 1;
    auto found = known.find(address);
    if (found == known.end()) { found = known.emplace(address, describe(address)).first; }
    if (found->second) { place.push_back(*found->second); }
  }
  return place;
}

/// Below a package folder, below the working folder, or all of it.
std::string short_path(std::string const& file) {
  for (std::string_view const folder : {"/site-packages/", "/dist-packages/"}) {
    auto const at = file.rfind(folder);
    if (at != std::string::npos) { return file.substr(at + folder.size()); }
  }
  std::unique_ptr<char, decltype(&std::free)> const here(getcwd(nullptr, 0), &std::free);
  if (here != nullptr) {
    auto const prefix = std::string(here.get()) + "/";
    if (file.compare(0, prefix.size(), prefix) == 0) { return file.substr(prefix.size()); }
  }
  return file;
}

}  // namespace

CallPlace find_callers() {
  auto place = python_frames(kMostFrames);
  return place.empty() ? functions_on_stack() : place;
}

std::string place_text(CallPlace const& place) {
  if (place.empty()) { return {}; }
  auto const& frame = place.front();
  if (frame.line == 0) { return frame.function + " in " + short_path(frame.file); }
  return short_path(frame.file) + ":" + std::to_string(frame.line) + " in " + frame.function;
}

}  // namespace maxbatch::dry
