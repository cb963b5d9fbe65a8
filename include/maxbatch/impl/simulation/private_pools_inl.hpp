#pragma once

#include <maxbatch/impl/simulation/allocator_state.hpp>

#include <algorithm>

namespace maxbatch::detail {
inline namespace MAXBATCH_ABI_NAMESPACE {

inline std::string to_text(PrivatePoolId pool) {
  return "(" + std::to_string(pool.first) + ", " + std::to_string(pool.second) + ")";
}

MAXBATCH_INLINE int AllocatorState::need_pool(PrivatePoolId id, char const* what) const {
  auto const number = pools_.find_private_pool(id);
  if (number < 0) { throw InvalidAllocatorCall(std::string(what) + ": there is no private pool " + to_text(id)); }
  return number;
}

MAXBATCH_INLINE void AllocatorState::create_or_incref_pool(PrivatePoolId id) {
  if (id.is_default()) { throw InvalidAllocatorCall("(0, 0) names the default pools, which are not private"); }
  auto number = pools_.find_private_pool(id);
  if (number < 0) { number = pools_.add_private_pool(id); }
  auto& pool = pools_.private_pool(number);
  if (pool.freeable) {
    throw InvalidAllocatorCall("private pool " + to_text(id) + " was released; it takes no new users");
  }
  ++pool.use_count;
}

MAXBATCH_INLINE void AllocatorState::begin_allocate_to_pool(PrivatePoolId id, std::optional<StreamHandle> stream) {
  auto const in_progress =
      std::any_of(captures_.begin(), captures_.end(), [&](Capture const& capture) { return capture.id == id; });
  if (in_progress) { throw InvalidAllocatorCall("requests go to private pool " + to_text(id) + " already"); }
  create_or_incref_pool(id);
  captures_.push_back({id, pools_.find_private_pool(id), stream});
}

MAXBATCH_INLINE void AllocatorState::end_allocate_to_pool(PrivatePoolId id) {
  auto const found =
      std::find_if(captures_.begin(), captures_.end(), [&](Capture const& capture) { return capture.id == id; });
  if (found == captures_.end()) { throw InvalidAllocatorCall("no requests go to private pool " + to_text(id)); }
  captures_.erase(found);
}

MAXBATCH_INLINE void AllocatorState::release_pool(PrivatePoolId id) {
  auto& pool = pools_.private_pool(need_pool(id, "release_pool"));
  if (pool.use_count == 0) { throw InvalidAllocatorCall("private pool " + to_text(id) + " has no user left"); }
  if (--pool.use_count == 0) { pool.freeable = true; }
}

MAXBATCH_INLINE void AllocatorState::set_use_on_oom(PrivatePoolId id, bool use) {
  pools_.private_pool(need_pool(id, "set_use_on_oom")).use_on_oom = use;
}

MAXBATCH_INLINE void AllocatorState::set_no_split(PrivatePoolId id) {
  pools_.private_pool(need_pool(id, "set_no_split")).no_split = true;
}

MAXBATCH_INLINE int AllocatorState::pool_use_count(PrivatePoolId id) const {
  auto const number = pools_.find_private_pool(id);
  return number < 0 ? 0 : pools_.private_pool(number).use_count;
}

}  // namespace MAXBATCH_ABI_NAMESPACE
}  // namespace maxbatch::detail
