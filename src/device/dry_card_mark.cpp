#include "dry_card_mark.hpp"

#include <dlfcn.h>

namespace maxbatch::detail {

bool is_on_dry_card() noexcept {
  static bool const is_there = dlsym(RTLD_DEFAULT, "maxbatch_dry_card_mark") != nullptr;
  return is_there;
}

}  // namespace maxbatch::detail
