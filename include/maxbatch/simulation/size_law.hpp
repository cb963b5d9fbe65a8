#pragma once

#include <maxbatch/config.hpp>

#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

namespace maxbatch {
inline namespace MAXBATCH_ABI_NAMESPACE {

/// What the size of LibTorch's reduction scratch depends on beside the tensor.
struct ReductionHardware {
  int multiprocessors = 132;
  int max_threads_per_multiprocessor = 2048;

  friend bool operator==(ReductionHardware a, ReductionHardware b) {
    return a.multiprocessors == b.multiprocessors &&
           a.max_threads_per_multiprocessor == b.max_threads_per_multiprocessor;
  }
};

/// A sum over the rows of a matrix [rows x batch size, outputs], such as a bias's gradient, is split over thread blocks
/// that share a scratch buffer, beside a counter for each group of 128 outputs. How many blocks share an output grows with
/// the rows until the card is full. Read off recordings; tests/unit/simulation/size_law_test.cpp has them.
struct ReductionScratch {
  std::int64_t outputs = 0;
  std::int64_t rows_per_sample = 0;

  /// Bytes of the buffer; 0: one block per output does it alone, and neither buffer nor counters are asked for.
  std::int64_t bytes(std::int64_t batch_size, ReductionHardware hardware) const;
  std::int64_t counter_bytes() const { return 4 * ((outputs + 127) / 128); }
};

/// How a request's size follows from the batch size.
struct SizeLaw {
  enum class Kind : std::uint8_t {
    constant,   ///< the same at every recorded size
    affine,     ///< a + b x batch size, in whole bytes
    reduction,  ///< ReductionScratch
    workspace,  ///< a library's own choice, which follows no law: the line through the recorded sizes
    jumping     ///< no law was found: likewise
  };

  Kind kind = Kind::constant;
  std::int64_t base_size = 0;  // bytes, at `base_batch_size`
  std::int64_t base_batch_size = 1;
  std::int64_t step_size = 0;  // bytes that `step_batch_size` further samples add
  std::int64_t step_batch_size = 1;
  ReductionScratch reduction;

  /// Bytes; at least 0.
  std::int64_t at(std::int64_t batch_size, ReductionHardware hardware) const;
};
/// "affine"
std::string_view to_string(SizeLaw::Kind kind);

/// A size that was recorded: {batch size, bytes}.
using RecordedSize = std::pair<std::int64_t, std::int64_t>;

/// The law through `sizes`, which ascend by batch size and are not empty. A size that falls is kept as it was last.
SizeLaw size_law_of(std::vector<RecordedSize> const& sizes);

/// The reduction whose scratch buffers have `sizes`, where the output before each has `output_bytes` and the counters after
/// it `counter_bytes`; `row_bytes`: sizes per sample of tensors in the program, ascending, of which one is probably summed.
/// Nothing where the law does not give every size.
std::optional<ReductionScratch> reduction_of(std::vector<RecordedSize> const& sizes, std::int64_t output_bytes,
                                             std::int64_t counter_bytes, std::vector<std::int64_t> const& row_bytes,
                                             ReductionHardware hardware);

}  // namespace MAXBATCH_ABI_NAMESPACE
}  // namespace maxbatch

#if !defined(MAXBATCH_COMPILED_LIB)
#include <maxbatch/impl/simulation/size_law_inl.hpp>
#endif
