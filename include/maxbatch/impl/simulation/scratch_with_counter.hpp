#pragma once

#include <maxbatch/simulation/allocation_program.hpp>

#include <cstdint>
#include <vector>

namespace maxbatch {
namespace detail {
inline namespace MAXBATCH_ABI_NAMESPACE {

/// A buffer, then small counters, then both let go of, with nothing else asked for in between.
inline bool is_scratch_with_counter(AllocationProgram const& program, std::vector<RequestLifetime> const& lives,
                                    std::uint32_t scratch) {
  constexpr std::uint32_t longest = 4;
  if (scratch + 1 >= program.requests.size()) { return false; }
  auto const& buffer = lives[scratch];
  auto const& counter = lives[scratch + 1];
  return counter.begins == buffer.begins + 1 && counter.is_momentary() && buffer.is_freed() &&
         buffer.ends - buffer.begins <= longest && program.requests[scratch + 1].size % 4 == 0 &&
         program.requests[scratch + 1].size < program.requests[scratch].size;
}

}  // namespace MAXBATCH_ABI_NAMESPACE
}  // namespace detail
}  // namespace maxbatch
