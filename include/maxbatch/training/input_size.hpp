#pragma once

#include <maxbatch/training/finder_result.hpp>
#include <maxbatch/training/trial.hpp>

#include <cstdint>
#include <optional>
#include <string>

namespace maxbatch {

/// Which image sizes `find_input_size` tries: the shorter side n runs over the multiples of `stride` from `minimum` to
/// `maximum`; the longer side is n * aspect_ratio, rounded up to the stride.
struct InputSizeOptions {
  std::int64_t batch_size = 1;
  std::int64_t stride = 32;
  double aspect_ratio = 1.0;            ///< longer side over shorter side, at least 1
  std::optional<std::int64_t> minimum;  ///< of the shorter side; none: one stride
  std::optional<std::int64_t> maximum;
  /// Both landscape and portrait are run in each trial, in turn: a data set holds both.
  bool both_orientations = true;
};

struct InputSizeResult {
  std::optional<ImageSize> largest;  ///< landscape; none: nothing fits
  std::optional<ImageSize> next;     ///< the next size, where it was tried and failed
  FinderResult finder;               ///< its batch sizes are the shorter sides in pixels
  std::int64_t batch_size = 0;       ///< at which it was asked
  /// As FinderResult::summary, with sizes in pixels.
  std::string summary() const;
};

}  // namespace maxbatch
