#pragma once

#include <maxbatch/bytes.hpp>
#include <maxbatch/config.hpp>

#include <array>
#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>

namespace maxbatch {
inline namespace MAXBATCH_ABI_NAMESPACE {

/// A settings string that LibTorch would refuse, or that the simulator cannot follow. The text names key, value and place.
class InvalidAllocatorSettings : public std::invalid_argument {
 public:
  using std::invalid_argument::invalid_argument;
};

/// What PYTORCH_CUDA_ALLOC_CONF can say about LibTorch 2.11's caching allocator, as far as it changes sizes or their order.
/// The defaults are LibTorch's.
struct AllocatorSettings {
  /// What a request between 1 and 10 MiB buys, and the page of expandable segments in the large pool.
  Bytes large_segment_size{std::int64_t{20} << 20};
  /// Blocks of at least this size are never split. None: all may be.
  std::optional<Bytes> max_split_size;
  /// How much larger than a request a block of at least `max_split_size` may be to serve it.
  Bytes max_non_split_rounding{std::int64_t{20} << 20};
  /// Of the limit, in (0, 1); 0: off. It does nothing without a limit.
  double garbage_collection_threshold = 0;
  /// Steps between powers of two that sizes are rounded up to: [0] from 1 MiB to 2 MiB and below, ..., [15] from 32 GiB;
  /// 0 and 1: off.
  std::array<std::int64_t, 16> roundup_power2_divisions{};
  bool expandable_segments = false;
  /// The limit that an allocator starts with, of the device's total memory, in (0, 1].
  double per_process_memory_fraction = 1;
  /// Whether a capture may reuse what was freed during it. The simulator does not follow that: it needs the graph.
  bool graph_capture_record_stream_reuse = false;

  friend bool operator==(AllocatorSettings const& a, AllocatorSettings const& b) {
    return a.large_segment_size == b.large_segment_size && a.max_split_size == b.max_split_size &&
           a.max_non_split_rounding == b.max_non_split_rounding &&
           a.garbage_collection_threshold == b.garbage_collection_threshold &&
           a.roundup_power2_divisions == b.roundup_power2_divisions && a.expandable_segments == b.expandable_segments &&
           a.per_process_memory_fraction == b.per_process_memory_fraction &&
           a.graph_capture_record_stream_reuse == b.graph_capture_record_stream_reuse;
  }
  friend bool operator!=(AllocatorSettings const& a, AllocatorSettings const& b) { return !(a == b); }
};

/// Reads "key:value,key:[value,value]" as LibTorch does: each time, split size, rounding and garbage collection begin at
/// their defaults again, while what else is not mentioned stays as in `before`.
/// Throws: InvalidAllocatorSettings, where LibTorch would throw, for the backend cudaMallocAsync (another allocator), and
/// for text that LibTorch would misread without a word.
AllocatorSettings parse_allocator_settings(std::string_view text, AllocatorSettings const& before = {});

/// The shortest text that gives `settings` when parsed; empty for the defaults.
std::string to_string(AllocatorSettings const& settings);

}  // namespace MAXBATCH_ABI_NAMESPACE
}  // namespace maxbatch

#if !defined(MAXBATCH_COMPILED_LIB)
#include <maxbatch/impl/simulation/allocator_settings_inl.hpp>
#endif
