#include "mask_counts.hpp"

#include <c10/core/StorageImpl.h>

#include <algorithm>
#include <iterator>
#include <unordered_map>
#include <utility>

namespace maxbatch::dry::mask_counts {
namespace {

struct Count {
  c10::weak_intrusive_ptr<c10::StorageImpl> of;
  void const* begin = nullptr;
  std::int64_t elements = 0;
  std::uint32_t version = 0;  // of the mask's contents, as autograd counts them
  std::int64_t count = 0;
};

std::unordered_map<c10::StorageImpl const*, Count>& counts() {
  static auto* const all = new std::unordered_map<c10::StorageImpl const*, Count>;
  return *all;
}

bool can_be_kept(at::Tensor const& mask) { return mask.has_storage() && !mask.is_inference(); }

/// A storage whose entry lives keeps its address, so no other can have it.
void sweep() {
  static std::size_t sweep_at = 256;
  if (counts().size() < sweep_at) { return; }
  for (auto entry = counts().begin(); entry != counts().end();) {
    entry = entry->second.of.expired() ? counts().erase(entry) : std::next(entry);
  }
  sweep_at = std::max<std::size_t>(256, 2 * counts().size());
}

}  // namespace

void keep(at::Tensor const& mask, std::int64_t count) {
  if (!can_be_kept(mask)) { return; }
  sweep();
  counts().insert_or_assign(mask.storage().unsafeGetStorageImpl(),
                            Count{mask.storage().getWeakStorageImpl(), mask.const_data_ptr(), mask.numel(),
                                  static_cast<std::uint32_t>(mask._version()), count});
}

std::optional<std::int64_t> find(at::Tensor const& mask) {
  if (!can_be_kept(mask)) { return std::nullopt; }
  auto const found = counts().find(mask.storage().unsafeGetStorageImpl());
  if (found == counts().end()) { return std::nullopt; }
  auto const& kept = found->second;
  auto const same = kept.begin == mask.const_data_ptr() && kept.elements == mask.numel() &&
                    kept.version == static_cast<std::uint32_t>(mask._version());
  return same ? std::optional<std::int64_t>(kept.count) : std::nullopt;
}

}  // namespace maxbatch::dry::mask_counts
