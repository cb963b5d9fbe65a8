#include "kernel_resources.hpp"

#include "dry_cuda/card_profile.hpp"
#include "kernel_name_hash.hpp"

#include <algorithm>
#include <array>
#include <iterator>
#include <sstream>

namespace maxbatch::dry {
namespace {

constexpr std::array<int, 6> kInTheWheel = {75, 80, 86, 90, 100, 120};  // as the table's columns

}  // namespace

int loaded_architecture(CardProfile const& card) {
  auto const of_card = card.major * 10 + card.minor;
  auto const newer = std::upper_bound(kInTheWheel.begin(), kInTheWheel.end(), of_card);
  return newer == kInTheWheel.begin() ? kInTheWheel.front() : *std::prev(newer);
}

KernelResourcesTable::KernelResourcesTable(std::string_view text, int architecture) {
  auto const column = std::find(kInTheWheel.begin(), kInTheWheel.end(), architecture) - kInTheWheel.begin();
  std::istringstream lines{std::string(text)};
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::uint64_t hash = 0;
    if (!(words >> std::hex >> hash)) { continue; }  // a comment
    std::string cell;
    for (std::ptrdiff_t i = 0; i <= column; ++i) { words >> cell; }
    KernelResources resources;
    char slash = 0;
    if (std::istringstream(cell) >> resources.registers >> slash >> resources.shared_bytes) {
      kernels_.emplace(hash, resources);
    }
  }
}

KernelResources KernelResourcesTable::find(std::string_view name) const {
  auto const found = kernels_.find(kernel_name_hash(name));
  return found == kernels_.end() ? KernelResources{} : found->second;
}

KernelResources kernel_resources(std::string_view name) {
  static auto const* const table =
      new KernelResourcesTable(built_in_kernel_resources(), loaded_architecture(card_profile()));
  return table->find(name);
}

}  // namespace maxbatch::dry
