#include "device/single_copy.hpp"

#include <stdexcept>
#include <string>

/// What the second copy is told when it wants the process: empty if it got it.
extern "C" __attribute__((visibility("default"))) char const* maxbatch_second_copy_claims() {
  static auto& told = *new std::string;
  try {
    maxbatch::detail::claim_process();
    told.clear();
  } catch (std::logic_error const& error) { told = error.what(); }
  return told.c_str();
}
