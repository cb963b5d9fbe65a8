#pragma once

#include <maxbatch/search/allowed_sizes.hpp>
#include <maxbatch/search/errors.hpp>

#include <algorithm>
#include <string>

namespace maxbatch {
namespace detail {
inline namespace MAXBATCH_ABI_NAMESPACE {

inline std::vector<std::int64_t> divisors_of(std::int64_t number) {
  std::vector<std::int64_t> low;
  std::vector<std::int64_t> high;
  for (std::int64_t d = 1; d <= number / d; ++d) {
    if (number % d != 0) { continue; }
    low.push_back(d);
    if (d != number / d) { high.push_back(number / d); }
  }
  low.insert(low.end(), high.rbegin(), high.rend());
  return low;
}

}  // namespace MAXBATCH_ABI_NAMESPACE
}  // namespace detail

inline namespace MAXBATCH_ABI_NAMESPACE {
MAXBATCH_INLINE AllowedSizes::AllowedSizes(SearchOptions const& options) {
  detail::require_at_least_one(options.minimum, "minimum");
  detail::require_at_least_one(options.multiple_of, "multiple_of");
  if (options.maximum) { detail::require_at_least_one(*options.maximum, "maximum"); }
  if (options.divisor_of) { detail::require_at_least_one(*options.divisor_of, "divisor_of (the effective batch)"); }
  if (options.enough) { detail::require_at_least_one(*options.enough, "enough"); }
  auto const bounds = [&options] {
    std::string text = "minimum " + std::to_string(options.minimum);
    if (options.maximum) { text += ", maximum " + std::to_string(*options.maximum); }
    if (options.multiple_of != 1) { text += ", multiple of " + std::to_string(options.multiple_of); }
    if (options.divisor_of) { text += ", divisor of " + std::to_string(*options.divisor_of); }
    return text;
  };
  if (options.maximum && options.minimum > *options.maximum) {
    throw InvalidArgument("minimum " + std::to_string(options.minimum) + " is above maximum " +
                          std::to_string(*options.maximum));
  }
  auto const maximum = std::min(options.maximum.value_or(kLargest), kLargest);
  if (options.minimum > kLargest || options.multiple_of > kLargest) {
    throw InvalidArgument("sizes above " + std::to_string(kLargest) + " cannot be searched (" + bounds() + ")");
  }
  is_unbounded_ = !options.maximum && !options.divisor_of;
  if (options.divisor_of) {
    if (*options.divisor_of > kLargest) {
      throw InvalidArgument("divisor_of " + std::to_string(*options.divisor_of) + " is above " +
                            std::to_string(kLargest));
    }
    for (auto const divisor : detail::divisors_of(*options.divisor_of)) {
      if (divisor >= options.minimum && divisor <= maximum && divisor % options.multiple_of == 0) {
        listed_.push_back(divisor);
      }
    }
    count_ = static_cast<std::int64_t>(listed_.size());
  } else {
    stride_ = options.multiple_of;
    first_ = (options.minimum + stride_ - 1) / stride_ * stride_;
    count_ = first_ > maximum ? 0 : (maximum - first_) / stride_ + 1;
  }
  if (count_ == 0) { throw InvalidArgument("no batch size is allowed: " + bounds()); }
  if (options.enough) { end_at_enough(*options.enough); }
}

MAXBATCH_INLINE void AllowedSizes::end_at_enough(std::int64_t enough) {
  // The smallest allowed size that is at least `enough`; when all are smaller, the maximum ends the search as before.
  auto const below = index_at_most(enough - 1);
  if (below + 1 < count_) {
    ends_at_enough_ = true;
    is_unbounded_ = false;
    count_ = below + 2;
    if (!listed_.empty()) { listed_.resize(static_cast<std::size_t>(count_)); }
  }
}

MAXBATCH_INLINE std::int64_t AllowedSizes::at(std::int64_t index) const {
  return listed_.empty() ? first_ + index * stride_ : listed_[static_cast<std::size_t>(index)];
}

MAXBATCH_INLINE std::int64_t AllowedSizes::index_at_most(std::int64_t size) const {
  if (!listed_.empty()) { return std::upper_bound(listed_.begin(), listed_.end(), size) - listed_.begin() - 1; }
  return size < first_ ? -1 : std::min(count_ - 1, (size - first_) / stride_);
}

}  // namespace MAXBATCH_ABI_NAMESPACE
}  // namespace maxbatch
