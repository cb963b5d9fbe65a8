#include "dry_cuda/libraries/real_library.hpp"

#include "dry_cuda/activation/environment.hpp"

#include <string>

#include <dlfcn.h>

namespace maxbatch::dry {

void* RealLibrary::address(char const* name) const {
  // By its soname: LibTorch needs the library, so it is loaded already, wherever it was found. A program that has not loaded
  // LibTorch yet finds it by the ordinary rules.
  void* const library = dlopen(soname_, RTLD_LAZY);
  void* const found = library == nullptr ? nullptr : dlsym(library, name);
  if (found == nullptr) {
    char const* const reason = dlerror();  // NOLINT(concurrency-mt-unsafe): the message is this thread's own
    end_with_sentence(std::string("a dry card lets the real ") + soname_ + " plan (" + name +
                      "), and it cannot be loaded; put its folder into LD_LIBRARY_PATH" +
                      (reason == nullptr ? "" : std::string(" (") + reason + ")"));
  }
  return found;
}

}  // namespace maxbatch::dry
