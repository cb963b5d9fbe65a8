#include "dry_cuda/libraries/real_library.hpp"

#include <cstdio>
#include <cstdlib>

#include <dlfcn.h>

namespace maxbatch::dry {

void* RealLibrary::address(char const* name) const {
  // By its soname: LibTorch needs the library, so it is loaded already, wherever it was found. A program that has not loaded
  // LibTorch yet finds it by the ordinary rules.
  void* const library = dlopen(soname_, RTLD_LAZY);
  void* const found = library == nullptr ? nullptr : dlsym(library, name);
  if (found == nullptr) {
    std::fprintf(stderr, "maxbatch: a dry card asks the real %s for %s, and it is not there: %s\n", soname_, name,
                 dlerror());  // NOLINT(concurrency-mt-unsafe): the message is this thread's own
    std::abort();
  }
  return found;
}

}  // namespace maxbatch::dry
