#pragma once

#include <maxbatch/config.hpp>

namespace maxbatch::detail {
inline namespace MAXBATCH_ABI_NAMESPACE {

/// All that a CachingAllocatorSimulator knows.
struct AllocatorState {};

}  // namespace MAXBATCH_ABI_NAMESPACE
}  // namespace maxbatch::detail
