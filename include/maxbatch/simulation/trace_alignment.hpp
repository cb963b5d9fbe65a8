#pragma once

#include <maxbatch/config.hpp>
#include <maxbatch/simulation/allocation_program.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace maxbatch {
inline namespace MAXBATCH_ABI_NAMESPACE {

/// A program as it was recorded at one batch size.
struct SizedProgram {
  std::int64_t batch_size = 0;
  AllocationProgram program;
};

/// Requests of the larger recording that a loop over the samples makes once more for each further sample.
struct TraceLoop {
  std::uint32_t begin = 0;    // the first request that the smaller recording has not
  std::uint32_t period = 0;   // requests of one iteration
  std::uint32_t count = 0;    // iterations that the smaller recording has not
  std::int64_t samples = 1;   // further samples for one further iteration
  bool newest_first = false;  // as in a backward pass: the further iterations come before the others

  std::uint32_t end() const { return begin + period * count; }
  bool holds(std::uint32_t request) const { return request >= begin && request < end(); }
};

/// Which requests of two recordings of one program at two batch sizes are the same.
struct TraceAlignment {
  static constexpr std::uint32_t kNone = 0xFFFFFFFF;

  std::vector<std::uint32_t> smaller_of;  // for each request of the larger one; kNone: only there
  std::vector<std::uint32_t> larger_of;   // for each request of the smaller one, likewise
  std::vector<TraceLoop> loops;           // ascending, disjoint

  /// Requests that only one of them has, without loops and without momentary ones (a library's scratch).
  std::size_t only_in_smaller = 0;
  std::size_t only_in_larger = 0;
  std::optional<std::uint32_t> first_only_in_larger;  // where the structure changes

  bool same_structure() const { return only_in_smaller == 0 && only_in_larger == 0; }
};

/// A request's counterpart is found by its size, which stays or grows in proportion to the batch, and by its place among
/// those that are found so. About 5 ms for two Swin-L recordings of 8,000 requests each.
/// Throws: InvalidArgument unless 1 <= smaller.batch_size < larger.batch_size; TraceError where the two have less than half
/// of their requests in common, with the place where they part.
TraceAlignment align_programs(SizedProgram const& smaller, SizedProgram const& larger);

}  // namespace MAXBATCH_ABI_NAMESPACE
}  // namespace maxbatch

#if !defined(MAXBATCH_COMPILED_LIB)
#include <maxbatch/impl/simulation/trace_alignment_inl.hpp>
#endif
