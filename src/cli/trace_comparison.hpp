#pragma once

#include <maxbatch/bytes.hpp>
#include <maxbatch/simulation/allocation_trace.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace maxbatch::cli {

/// What one of two recordings did by itself.
struct ComparedTrace {
  std::size_t allocations = 0;
  Bytes peak_allocated;  ///< rounded to blocks of 512 bytes
  Bytes peak_reserved;
  std::size_t only_here = 0;  ///< allocations that the other one has not
  Bytes alive_only_here;      ///< at its peak: of those
  Bytes alive_longer_here;    ///< at its peak: of allocations that both have, and that are gone at the other's peak
};

/// Allocations that differ in the same way: of one operator, with one size here and another there.
struct TraceDifference {
  std::string what;                ///< an operator or a line of Python; empty: the recordings do not say
  std::optional<Bytes> size_in_a;  ///< none: only in the other one
  std::optional<Bytes> size_in_b;
  std::size_t count = 0;
  std::size_t first_in_a = 0;  ///< the first of them: which allocation, from 0
  Bytes alive_in_a;            ///< at A's peak
  Bytes alive_in_b;
};

struct TraceComparison {
  ComparedTrace a;
  ComparedTrace b;
  std::size_t same = 0;                                 ///< allocations, by size and order
  Bytes alive_in_both;                                  ///< at both peaks
  std::vector<TraceDifference> differences;             ///< those with most alive at a peak first
  std::optional<std::size_t> first_segment_difference;  ///< of what was bought from the driver and given back, from 0
  std::size_t segment_events_in_a = 0;
  std::size_t segment_events_in_b = 0;

  /// The same allocations of the same sizes, alive at the peak or not alike, in the same segments.
  bool is_same() const {
    return differences.empty() && !first_segment_difference && a.alive_longer_here == b.alive_longer_here &&
           a.alive_longer_here.count == 0;
  }
};

/// Allocation by allocation, in their order: what both have is found as the longest common subsequence of the sizes.
/// None: the two differ in more than 8,000 allocations and are hardly of one program.
std::optional<TraceComparison> compare_traces(AllocationTrace const& a, AllocationTrace const& b);

/// For people, and as JSON, each ended by a newline.
std::string comparison_text(TraceComparison const& comparison, std::string const& name_of_a,
                            std::string const& name_of_b);
std::string comparison_json(TraceComparison const& comparison, std::string const& name_of_a,
                            std::string const& name_of_b);

}  // namespace maxbatch::cli
