#include "asserting_kernels.hpp"

#include "kernel_name_hash.hpp"

#include <algorithm>
#include <sstream>
#include <string>

namespace maxbatch::dry {
namespace {

constexpr std::uint64_t kKept =
    (std::uint64_t{1} << 40) - 1;  // of a hash: two of 21,742 names are alike once in 10,000 such tables

}  // namespace

AssertingKernels::AssertingKernels(std::string_view text) {
  std::istringstream lines{std::string(text)};
  for (std::string line; std::getline(lines, line);) {
    if (line.empty() || line.front() == '#') { continue; }
    std::istringstream words(line);
    for (std::uint64_t hash = 0; words >> std::hex >> hash;) { hashes_.push_back(hash); }
  }
  std::sort(hashes_.begin(), hashes_.end());
}

bool AssertingKernels::hold(std::string_view name) const {
  return std::binary_search(hashes_.begin(), hashes_.end(), kernel_name_hash(name) & kKept);
}

bool kernel_asserts(std::string_view name) {
  static auto const* const table = new AssertingKernels(built_in_asserting_kernels());
  return table->hold(name);
}

}  // namespace maxbatch::dry
