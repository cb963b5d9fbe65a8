#pragma once

#include <maxbatch/search/search_options.hpp>

#include <cstdint>
#include <vector>

namespace maxbatch {
inline namespace MAXBATCH_ABI_NAMESPACE {

/// The sizes that a search may try, in ascending order and by index: multiples in a range, or divisors of a number.
class AllowedSizes {
 public:
  /// Throws: InvalidArgument for bounds that contradict each other or leave no size; the text names the values.
  explicit AllowedSizes(SearchOptions const& options);

  std::int64_t count() const { return count_; }
  std::int64_t at(std::int64_t index) const;
  /// The index of the largest allowed size that is at most `size`; -1 when all are larger.
  std::int64_t index_at_most(std::int64_t size) const;
  /// Whether the last size is there because the caller said it is enough, not because it is the maximum.
  bool ends_at_enough() const { return ends_at_enough_; }
  /// Whether the caller gave no upper bound, so that the last size only stands for "very large".
  bool is_unbounded() const { return is_unbounded_; }

  /// Stands for "no maximum": more samples than any tensor can index once they have more than a few values.
  static constexpr std::int64_t kLargest = std::int64_t{1} << 40;

 private:
  void end_at_enough(std::int64_t enough);

  std::int64_t first_ = 1;
  std::int64_t stride_ = 1;
  std::int64_t count_ = 0;
  std::vector<std::int64_t> listed_;  // divisors; empty: first_, first_ + stride_, …
  bool ends_at_enough_ = false;
  bool is_unbounded_ = false;
};

}  // namespace MAXBATCH_ABI_NAMESPACE
}  // namespace maxbatch

#if !defined(MAXBATCH_COMPILED_LIB)
#include <maxbatch/impl/search/allowed_sizes_inl.hpp>
#endif
