// Python's public C interface, looked up by name in whatever Python the process has; nothing of it is linked.
#include "python_frames.hpp"

#include <ATen/record_function.h>

#include <string>
#include <string_view>

#include <dlfcn.h>

namespace maxbatch::dry {
namespace {

struct Object;  // PyObject, PyFrameObject and PyCodeObject are one to us

template <typename Function>
void look_up(Function& function, char const* name) {
  function = reinterpret_cast<Function>(dlsym(RTLD_DEFAULT, name));
}

struct Python {
  int (*is_initialized)() = nullptr;
  void* (*thread_state)() = nullptr;
  int (*ensure_lock)() = nullptr;
  void (*release_lock)(int) = nullptr;
  Object* (*current_frame)() = nullptr;
  Object* (*caller)(Object*) = nullptr;
  Object* (*code)(Object*) = nullptr;
  int (*line)(Object*) = nullptr;
  Object* (*attribute)(Object*, char const*) = nullptr;
  char const* (*text)(Object*) = nullptr;
  void (*keep)(Object*) = nullptr;
  void (*drop)(Object*) = nullptr;
  void (*clear_error)() = nullptr;
  Object* (*error)() = nullptr;

  Python() {
    look_up(is_initialized, "Py_IsInitialized");
    look_up(thread_state, "PyGILState_GetThisThreadState");
    look_up(ensure_lock, "PyGILState_Ensure");
    look_up(release_lock, "PyGILState_Release");
    look_up(current_frame, "PyEval_GetFrame");
    look_up(caller, "PyFrame_GetBack");
    look_up(code, "PyFrame_GetCode");
    look_up(line, "PyFrame_GetLineNumber");
    look_up(attribute, "PyObject_GetAttrString");
    look_up(text, "PyUnicode_AsUTF8");
    look_up(keep, "Py_IncRef");
    look_up(drop, "Py_DecRef");
    look_up(clear_error, "PyErr_Clear");
    look_up(error, "PyErr_Occurred");
  }
  [[nodiscard]] bool is_whole() const {
    return is_initialized != nullptr && thread_state != nullptr && ensure_lock != nullptr && release_lock != nullptr &&
           current_frame != nullptr && caller != nullptr && code != nullptr && line != nullptr &&
           attribute != nullptr && text != nullptr && keep != nullptr && drop != nullptr && clear_error != nullptr &&
           error != nullptr;
  }

  /// An attribute of a code object as text; empty where there is none, as co_qualname before Python 3.11.
  [[nodiscard]] std::string text_of(Object* object, char const* name) const {
    auto* const value = attribute(object, name);
    if (value == nullptr) {
      clear_error();
      return {};
    }
    auto const* const characters = text(value);
    std::string result = characters == nullptr ? "" : characters;
    if (characters == nullptr) { clear_error(); }
    drop(value);
    return result;
  }
};

Python const& python() {
  static Python const found;
  return found;
}

/// The package torch, with a slash: LibTorch's library is in its folder lib.
std::string const& package_folder() {
  static std::string const folder = [] {
    Dl_info info{};
    if (dladdr(reinterpret_cast<void*>(&at::hasCallbacks), &info) == 0 || info.dli_fname == nullptr) {
      return std::string();
    }
    std::string const path = info.dli_fname;
    auto const lib = path.rfind("/lib/");
    return lib == std::string::npos ? std::string() : path.substr(0, lib + 1);
  }();
  return folder;
}

bool is_torch(std::string_view file) {
  auto const& folder = package_folder();
  return !folder.empty() && file.substr(0, folder.size()) == folder;
}

CallFrame describe(Object* frame) {
  auto* const code = python().code(frame);
  CallFrame result{python().text_of(code, "co_filename"), python().line(frame), python().text_of(code, "co_qualname")};
  if (result.function.empty()) { result.function = python().text_of(code, "co_name"); }
  python().drop(code);
  return result;
}

}  // namespace

CallPlace python_frames(std::size_t most) {
  CallPlace place;
  if (!python().is_whole() || python().is_initialized() == 0) { return place; }
  // Without a state of its own a thread runs no Python; making one, and waiting for the lock, would be for nothing.
  if (python().thread_state() == nullptr) { return place; }
  auto const lock = python().ensure_lock();
  // An error that is on its way is nobody's business here, and asking for attributes under it is not allowed.
  auto* frame = python().error() == nullptr ? python().current_frame() : nullptr;
  if (frame != nullptr) { python().keep(frame); }
  while (frame != nullptr && place.size() < most) {
    auto described = describe(frame);
    if (!is_torch(described.file)) { place.push_back(std::move(described)); }
    auto* const next = python().caller(frame);
    python().drop(frame);
    frame = next;
  }
  if (frame != nullptr) { python().drop(frame); }
  python().release_lock(lock);
  return place;
}

}  // namespace maxbatch::dry
