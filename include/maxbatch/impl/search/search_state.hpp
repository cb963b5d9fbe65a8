#pragma once

#include <maxbatch/search/trial_outcome.hpp>

#include <cstdint>
#include <map>
#include <optional>

namespace maxbatch {
namespace detail {
inline namespace MAXBATCH_ABI_NAMESPACE {

/// What is known of each tried size, by its index among the allowed ones, and the bracket that follows from it.
class SearchState {
 public:
  explicit SearchState(std::int64_t size_count) : size_count_(size_count), bad_(size_count) {}

  /// The largest index that fits; -1: none.
  std::int64_t good() const { return good_; }
  /// The smallest index above `good()` that failed; the number of sizes: none did.
  std::int64_t bad() const { return bad_; }
  bool is_closed() const { return bad_ - good_ == 1; }
  bool has_failure_above() const { return bad_ < size_count_; }

  /// A pass of a size that failed before does not make it fit: see `forgive`.
  void record(std::int64_t index, bool fits, Verdict verdict) {
    auto& known = known_[index];
    if (fits) {
      if (known.failures == 0) { settle(index, true); }
      return;
    }
    known.only_likely = verdict == Verdict::likely_out_of_memory && (known.failures == 0 || known.only_likely);
    ++known.failures;
    // A fit that does not count as one (see SearchOptions::require_clean) is about memory too.
    known.memory_failures += is_memory_failure(verdict) || is_fit(verdict) ? 1 : 0;
    settle(index, false);
  }

  /// The failures of this size were spurious: it fits.
  void forgive(std::int64_t index) { settle(index, true); }

  bool was_tried(std::int64_t index) const { return known_.count(index) != 0; }
  std::int64_t failures(std::int64_t index) const { return at(index).failures; }
  /// Whether all of this index's failures were about memory.
  bool failed_for_memory(std::int64_t index) const {
    auto const known = at(index);
    return known.failures > 0 && known.memory_failures == known.failures;
  }
  /// Whether the only evidence is a library's text.
  bool only_likely(std::int64_t index) const { return at(index).only_likely; }
  bool counts_as_failed(std::int64_t index) const { return at(index).settled_as_failed; }

  /// Whether every index above `good()` failed for memory.
  bool all_above_failed_for_memory() const {
    auto index = good_ + 1;
    for (auto entry = known_.lower_bound(index); entry != known_.end() && entry->first == index; ++entry, ++index) {
      if (!entry->second.settled_as_failed || !failed_for_memory(index)) { return false; }
    }
    return index == size_count_;
  }

  template <typename Visit>
  void for_each_failed_below_good(Visit const& visit) const {
    for (auto const& [index, known] : known_) {
      if (index < good_ && known.settled_as_failed) { visit(index); }
    }
  }

 private:
  struct Known {
    std::int64_t failures = 0;
    std::int64_t memory_failures = 0;
    bool only_likely = false;
    bool settled_as_failed = false;
  };

  Known at(std::int64_t index) const {
    auto const entry = known_.find(index);
    return entry == known_.end() ? Known{} : entry->second;
  }

  void settle(std::int64_t index, bool fits) {
    known_[index].settled_as_failed = !fits;
    good_ = -1;
    for (auto const& [tried, known] : known_) {
      if (!known.settled_as_failed) { good_ = tried; }
    }
    bad_ = size_count_;
    for (auto entry = known_.upper_bound(good_); entry != known_.end(); ++entry) {
      if (entry->second.settled_as_failed) {
        bad_ = entry->first;
        break;
      }
    }
  }

  std::int64_t size_count_;
  std::int64_t good_ = -1;
  std::int64_t bad_;
  std::map<std::int64_t, Known> known_;
};

}  // namespace MAXBATCH_ABI_NAMESPACE
}  // namespace detail
}  // namespace maxbatch
