#pragma once

#include <maxbatch/bytes.hpp>
#include <maxbatch/config.hpp>

#include <cstdint>
#include <functional>
#include <optional>

namespace maxbatch {
inline namespace MAXBATCH_ABI_NAMESPACE {

/// A peak of reserved bytes for which only the law of the addresses is known: over several draws of what the law leaves open.
struct ModelledPeak {
  Bytes most_frequent;  // the lowest of the most frequent ones
  Bytes lowest;
  Bytes highest;
  int draws = 0;
  int out_of_memory = 0;  // draws without a peak, which the three amounts do not know of

  /// Whether most draws ran through.
  bool fits() const { return 2 * out_of_memory < draws; }
};

constexpr int kUsualDraws = 10;

/// Calls `replay` with the seeds 1 to `draws` (DriverPlacement::seed); it answers nothing when out of memory.
ModelledPeak modelled_peak(std::function<std::optional<Bytes>(std::uint64_t seed)> const& replay,
                           int draws = kUsualDraws);

}  // namespace MAXBATCH_ABI_NAMESPACE
}  // namespace maxbatch

#if !defined(MAXBATCH_COMPILED_LIB)
#include <maxbatch/impl/simulation/modelled_peak_inl.hpp>
#endif
