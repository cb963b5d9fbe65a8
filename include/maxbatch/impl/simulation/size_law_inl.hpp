#pragma once

#include <maxbatch/simulation/size_law.hpp>

#include <algorithm>
#include <array>
#include <cstddef>

namespace maxbatch {
namespace detail {
inline namespace MAXBATCH_ABI_NAMESPACE {

// See Note [Reduction scratch]: rows are dealt to thread blocks of 32 x 4 threads, each thread with 4 outputs.
// A block takes at least 16 rows per thread and, once the card is full, up to 256.
constexpr std::int64_t kReductionThreads = 128;
constexpr std::int64_t kReductionRowThreads = 4;
constexpr std::int64_t kReductionFewestRows = 16;
constexpr std::int64_t kReductionMostRows = 256;
constexpr std::int64_t kReductionOutputsPerBlock = 128;
constexpr std::int64_t kReductionBytesPerOutput = 4 * kReductionThreads;

constexpr std::int64_t divide_up(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

}  // namespace MAXBATCH_ABI_NAMESPACE
}  // namespace detail

inline namespace MAXBATCH_ABI_NAMESPACE {

MAXBATCH_INLINE std::int64_t ReductionScratch::bytes(std::int64_t batch_size, ReductionHardware hardware) const {
  using namespace detail;
  auto const rows_per_thread = divide_up(rows_per_sample * batch_size, kReductionRowThreads);
  if (rows_per_thread < kReductionMostRows) { return 0; }
  auto const blocks_at_once = static_cast<std::int64_t>(hardware.multiprocessors) *
                              (hardware.max_threads_per_multiprocessor / kReductionThreads);
  auto const full = divide_up(blocks_at_once, divide_up(outputs, kReductionOutputsPerBlock));
  auto const shares = std::max(std::min(full, divide_up(rows_per_thread, kReductionFewestRows)),
                               divide_up(rows_per_thread, kReductionMostRows));
  return shares > 1 ? shares * outputs * kReductionBytesPerOutput : 0;
}

MAXBATCH_INLINE std::int64_t SizeLaw::at(std::int64_t batch_size, ReductionHardware hardware) const {
  if (kind == Kind::reduction) { return reduction.bytes(batch_size, hardware); }
  auto const steps = (batch_size - base_batch_size) * step_size;
  auto const added = steps >= 0 ? steps / step_batch_size : -((-steps + step_batch_size - 1) / step_batch_size);
  return std::max<std::int64_t>(base_size + added, 0);
}

MAXBATCH_INLINE std::string_view to_string(SizeLaw::Kind kind) {
  constexpr std::array<std::string_view, 5> names = {"constant", "affine", "reduction", "workspace", "jumping"};
  return names.at(static_cast<std::size_t>(kind));
}

MAXBATCH_INLINE SizeLaw size_law_of(std::vector<RecordedSize> const& sizes) {
  SizeLaw law;
  // Not a structured binding: Clang 14 lets no lambda capture one.
  auto const last_batch_size = sizes.back().first;
  auto const last_size = sizes.back().second;
  law.base_batch_size = last_batch_size;
  law.base_size = last_size;
  if (std::all_of(sizes.begin(), sizes.end(), [&](auto const& at) { return at.second == sizes.back().second; })) {
    return law;
  }
  // The line through the first and the last, if all lie on it; else through the last two.
  auto line = [&](RecordedSize const& first) {
    law.step_batch_size = last_batch_size - first.first;
    law.step_size = last_size - first.second;
  };
  line(sizes.front());
  auto const is_exact =
      law.step_size % law.step_batch_size == 0 && law.at(1, {}) > 0 &&
      std::all_of(sizes.begin(), sizes.end(), [&](auto const& at) { return law.at(at.first, {}) == at.second; });
  if (is_exact && law.step_size > 0) {
    law.kind = SizeLaw::Kind::affine;
    return law;
  }
  law.kind = SizeLaw::Kind::jumping;
  line(sizes[sizes.size() - 2]);
  law.step_size = std::max<std::int64_t>(law.step_size, 0);
  return law;
}

MAXBATCH_INLINE std::optional<ReductionScratch> reduction_of(std::vector<RecordedSize> const& sizes,
                                                             std::int64_t output_bytes, std::int64_t counter_bytes,
                                                             std::vector<std::int64_t> const& row_bytes,
                                                             ReductionHardware hardware) {
  using namespace detail;
  for (std::int64_t const element_bytes : {4, 2, 8}) {
    ReductionScratch scratch;
    scratch.outputs = output_bytes / element_bytes;
    if (output_bytes % element_bytes != 0 || scratch.outputs < 1 || scratch.counter_bytes() != counter_bytes) {
      continue;
    }
    auto const gives_all = [&](std::int64_t rows) {
      scratch.rows_per_sample = rows;
      return std::all_of(sizes.begin(), sizes.end(),
                         [&](auto const& at) { return scratch.bytes(at.first, hardware) == at.second; });
    };
    auto const bytes_per_share = scratch.outputs * kReductionBytesPerOutput;
    if (sizes.back().second % bytes_per_share != 0) { continue; }
    // As many rows as the last size allows, unless a tensor of the program says better.
    auto const shares = sizes.back().second / bytes_per_share;
    auto const most = shares * kReductionFewestRows * kReductionRowThreads / sizes.back().first;
    auto const fewest = (shares - 1) * kReductionFewestRows * kReductionRowThreads / sizes.back().first;
    for (auto rows = most; rows > fewest; --rows) {
      if (std::binary_search(row_bytes.begin(), row_bytes.end(), rows * output_bytes) && gives_all(rows)) {
        return scratch;
      }
    }
    // A full card's scratch says only how many rows there are at least.
    for (auto const bytes : row_bytes) {
      if (bytes % output_bytes == 0 && gives_all(bytes / output_bytes)) { return scratch; }
    }
    for (auto rows = most; rows > fewest; --rows) {
      if (gives_all(rows)) { return scratch; }
    }
  }
  return std::nullopt;
}

}  // namespace MAXBATCH_ABI_NAMESPACE
}  // namespace maxbatch
