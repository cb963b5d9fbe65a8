#pragma once

#include <maxbatch/simulation/allocator_event.hpp>

namespace maxbatch {
inline namespace MAXBATCH_ABI_NAMESPACE {

MAXBATCH_INLINE std::string_view to_string(AllocatorAction action) {
  switch (action) {
    case AllocatorAction::alloc: return "alloc";
    case AllocatorAction::free_requested: return "free_requested";
    case AllocatorAction::free_completed: return "free_completed";
    case AllocatorAction::segment_alloc: return "segment_alloc";
    case AllocatorAction::segment_free: return "segment_free";
    case AllocatorAction::segment_map: return "segment_map";
    case AllocatorAction::segment_unmap: return "segment_unmap";
    case AllocatorAction::oom: break;
  }
  return "oom";
}

}  // namespace MAXBATCH_ABI_NAMESPACE
}  // namespace maxbatch
