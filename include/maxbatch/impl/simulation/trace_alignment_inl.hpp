#pragma once

#include <maxbatch/impl/simulation/common_subsequence.hpp>
#include <maxbatch/search/errors.hpp>
#include <maxbatch/simulation/trace_alignment.hpp>
#include <maxbatch/simulation/trace_file.hpp>

#include <algorithm>
#include <string>
#include <unordered_set>

namespace maxbatch {
namespace detail {
inline namespace MAXBATCH_ABI_NAMESPACE {

class ProgramAligner {
 public:
  ProgramAligner(SizedProgram const& smaller, SizedProgram const& larger)
      : small_(smaller.program),
        large_(larger.program),
        small_size_(smaller.batch_size),
        large_size_(larger.batch_size),
        small_lives_(lifetimes_of(smaller.program)),
        large_lives_(lifetimes_of(larger.program)) {
    result_.smaller_of.assign(large_.requests.size(), kNone);
    result_.larger_of.assign(small_.requests.size(), kNone);
  }

  TraceAlignment align() {
    pair_by_size();
    pair_by_place();
    gather_runs();
    find_loops();
    count_the_rest();
    return std::move(result_);
  }

 private:
  static constexpr auto kNone = TraceAlignment::kNone;
  static constexpr std::int64_t kMostEdits = 6000;  // 150 MB and a few tenths of a second

  bool have_same_size(std::uint32_t small, std::uint32_t large) const {
    auto const& a = small_.requests[small];
    auto const& b = large_.requests[large];
    return (a.size == b.size || a.size * large_size_ == b.size * small_size_) && a.stream == b.stream &&
           a.pool == b.pool;
  }

  bool may_be_same(std::uint32_t small, std::uint32_t large) const {
    return have_same_size(small, large) && small_lives_[small].is_momentary() == large_lives_[large].is_momentary();
  }

  /// Of those that lie between the same two pairs.
  bool have_same_place(std::uint32_t small, std::uint32_t large) const {
    auto const& a = small_.requests[small];
    auto const& b = large_.requests[large];
    auto const& a_life = small_lives_[small];
    auto const& b_life = large_lives_[large];
    return is_of_its_own_size(large) && (a.size <= b.size || a_life.is_momentary()) &&
           a_life.is_momentary() == b_life.is_momentary() && a_life.is_freed() == b_life.is_freed() &&
           is_brief(a_life) == is_brief(b_life) && a.stream == b.stream && a.pool == b.pool;
  }

  void pair(std::uint32_t small, std::uint32_t large) {
    result_.smaller_of[large] = small;
    result_.larger_of[small] = large;
  }

  void pair_by_size() {
    auto const n = static_cast<std::int64_t>(small_.requests.size());
    auto const m = static_cast<std::int64_t>(large_.requests.size());
    auto const pairs = common_subsequence(
        n, m, [&](std::uint32_t i, std::uint32_t j) { return may_be_same(i, j); }, kMostEdits);
    if (!pairs || 2 * static_cast<std::int64_t>(pairs->size()) < std::min(n, m) || n == 0 || m == 0) {
      fail(pairs ? pairs->size() : 0);
    }
    for (auto const& [small, large] : *pairs) {
      pair(small, large);
      if (small_.requests[small].size == large_.requests[large].size) {
        constant_sizes_.insert(large_.requests[large].size);
      }
    }
  }

  [[noreturn]] void fail(std::size_t common) const {
    std::uint32_t same = 0;
    while (same < small_.requests.size() && same < large_.requests.size() && may_be_same(same, same)) { ++same; }
    auto describe = [&](AllocationProgram const& program) {
      return same < program.requests.size() ? "asks for " + std::to_string(program.requests[same].size) + " bytes"
                                            : std::string("ends");
    };
    throw TraceError("the recordings of batch " + std::to_string(small_size_) + " and " + std::to_string(large_size_) +
                     " are not of one program: they part at request " + std::to_string(same) + ", where one " +
                     describe(small_) + " and the other " + describe(large_) +
                     (common > 0
                          ? ", and have " + std::to_string(common) + " of " + std::to_string(small_.requests.size()) +
                                " and " + std::to_string(large_.requests.size()) + " requests in common"
                          : std::string()));
  }

  /// What lies between two pairs, has the same kind of life and comes in the same order is the same request with a size of
  /// its own law.
  void pair_by_place() {
    std::uint32_t small = 0;
    std::uint32_t large = 0;
    while (small < small_.requests.size() || large < large_.requests.size()) {
      auto small_end = small;
      while (small_end < small_.requests.size() && result_.larger_of[small_end] == kNone) { ++small_end; }
      auto const large_end = small_end < small_.requests.size() ? result_.larger_of[small_end]
                                                                : static_cast<std::uint32_t>(large_.requests.size());
      pair_gap(small, small_end, large, large_end);
      small = small_end + 1;
      large = large_end + 1;
    }
  }

  void pair_gap(std::uint32_t small, std::uint32_t small_end, std::uint32_t large, std::uint32_t large_end) {
    if (small >= small_end || large >= large_end) { return; }
    auto const pairs = common_subsequence(
        small_end - small, large_end - large,
        [&](std::uint32_t i, std::uint32_t j) {
          return have_same_size(small + i, large + j) || have_same_place(small + i, large + j);
        },
        kMostEdits);
    if (!pairs) { return; }
    for (auto const& [i, j] : *pairs) { pair(small + i, large + j); }
  }

  /// No other request of its size stays the same: else it would have been paired by its size, too.
  bool is_of_its_own_size(std::uint32_t large) const { return constant_sizes_.count(large_.requests[large].size) == 0; }

  static bool is_brief(RequestLifetime const& life) { return life.is_freed() && life.ends - life.begins <= 4; }

  /// Whether two requests of the larger recording are alike, so that either may be the one that is only there.
  bool alike(std::uint32_t a, std::uint32_t b) const {
    auto const& first = large_.requests[a];
    auto const& second = large_.requests[b];
    return first.size == second.size && first.stream == second.stream && first.pool == second.pool &&
           large_lives_[a].is_momentary() == large_lives_[b].is_momentary();
  }

  bool is_new(std::uint32_t request) const { return result_.smaller_of[request] == kNone; }

  /// Moves the run [begin, end) of new requests by one: the first of it takes the place of the one behind it.
  void slide_up(std::uint32_t begin, std::uint32_t end) {
    pair(result_.smaller_of[end], begin);
    result_.smaller_of[end] = kNone;
  }
  void slide_down(std::uint32_t begin, std::uint32_t end) {
    pair(result_.smaller_of[begin - 1], end - 1);
    result_.smaller_of[begin - 1] = kNone;
  }

  /// Runs of new requests are slid into one where what lies between is alike.
  void gather_runs() {
    auto const size = static_cast<std::uint32_t>(large_.requests.size());
    for (std::uint32_t begin = 0; begin < size; ++begin) {
      if (!is_new(begin)) { continue; }
      auto end = begin;
      while (end < size && is_new(end)) { ++end; }
      auto const length = end - begin;
      auto reach = end;  // how far the run could be slid
      while (reach < size && !is_new(reach) && alike(reach, reach - length)) { ++reach; }
      if (reach < size && is_new(reach) && reach > end) {
        for (auto at = end; at < reach; ++at) { slide_up(at - length, at); }
        begin = reach - length - 1;  // look at the joined run again
        continue;
      }
      begin = end;
    }
  }

  void find_loops() {
    auto const size = static_cast<std::uint32_t>(large_.requests.size());
    for (std::uint32_t begin = 0; begin < size; ++begin) {
      if (!is_new(begin)) { continue; }
      auto end = begin;
      while (end < size && is_new(end)) { ++end; }
      if (auto const loop = loop_of(begin, end)) {
        result_.loops.push_back(*loop);
        begin = std::max(end, loop->end());
      } else {
        begin = end;
      }
    }
  }

  std::optional<TraceLoop> loop_of(std::uint32_t begin, std::uint32_t end) {
    auto const length = end - begin;
    auto const further = large_size_ - small_size_;
    TraceLoop loop;
    loop.count = length % further == 0 ? static_cast<std::uint32_t>(further) : 1;
    loop.samples = further / loop.count;
    loop.period = length / loop.count;
    if (!is_periodic(begin, end, loop.period) && loop.count > 1) {
      loop.count = 1;
      loop.samples = further;
      loop.period = length;
    }
    auto lowest = begin;
    while (lowest > 0 && !is_new(lowest - 1) && alike(lowest - 1, lowest - 1 + loop.period)) { --lowest; }
    auto highest = begin;
    while (highest + length < large_.requests.size() && !is_new(highest + length) &&
           alike(highest + length, highest + length - loop.period)) {
      ++highest;
    }
    if (highest - lowest < loop.period || siblings_grow(lowest, highest + length, loop.period)) { return std::nullopt; }

    auto best = begin;
    auto best_score = score(begin, length);
    for (auto at = lowest; at <= highest; ++at) {
      auto const here = score(at, length);
      if (here > best_score || (here == best_score && at > best)) {
        best = at;
        best_score = here;
      }
    }
    for (auto at = begin; at < best; ++at) { slide_up(at, at + length); }
    for (auto at = begin; at > best; --at) { slide_down(at, at + length); }
    loop.begin = best;
    loop.newest_first = best - lowest < loop.period;
    return loop;
  }

  /// What one iteration asks for does not depend on how many there are. Where it does, the run is a change of structure.
  bool siblings_grow(std::uint32_t begin, std::uint32_t end, std::uint32_t period) const {
    std::uint32_t growing = 0;
    std::uint32_t old = 0;
    for (auto at = begin; at < end; ++at) {
      if (is_new(at)) { continue; }
      ++old;
      if (small_.requests[result_.smaller_of[at]].size != large_.requests[at].size) { ++growing; }
    }
    return old < period || 4 * growing > old;
  }

  bool is_periodic(std::uint32_t begin, std::uint32_t end, std::uint32_t period) const {
    for (auto at = begin; at + period < end; ++at) {
      if (!alike(at, at + period)) { return false; }
    }
    return true;
  }

  /// How well a run of `length` requests from `begin` on would be iterations of their own: few blocks live across its ends
  /// only briefly, and its frees are of other new requests rather than of old ones.
  std::int64_t score(std::uint32_t begin, std::uint32_t length) const {
    auto const first = large_lives_[begin].begins;
    auto const last = begin + length < large_.requests.size() ? large_lives_[begin + length].begins
                                                              : static_cast<std::uint32_t>(large_.operations.size());
    std::int64_t score = 0;
    for (auto at = first; at < last; ++at) {
      auto const& operation = large_.operations[at];
      if (operation.kind == ProgramOperation::Kind::allocate || operation.kind == ProgramOperation::Kind::empty_cache) {
        continue;
      }
      auto const request = operation.request;
      if (request >= begin && request < begin + length) {
        score += 4;
      } else if (in_a_loop(request)) {
        score += 1;
      } else {  // of the iteration before: the cut goes through a life
        score -= request < begin && request + length >= begin ? 2 : 1;
      }
    }
    return score;
  }

  bool in_a_loop(std::uint32_t request) const {
    return std::any_of(result_.loops.begin(), result_.loops.end(),
                       [request](TraceLoop const& loop) { return loop.holds(request); });
  }

  void count_the_rest() {
    for (std::uint32_t i = 0; i < small_.requests.size(); ++i) {
      if (result_.larger_of[i] == kNone && !small_lives_[i].is_momentary()) { ++result_.only_in_smaller; }
    }
    for (std::uint32_t i = 0; i < large_.requests.size(); ++i) {
      if (!is_new(i) || large_lives_[i].is_momentary() || in_a_loop(i)) { continue; }
      if (!result_.first_only_in_larger) { result_.first_only_in_larger = i; }
      ++result_.only_in_larger;
    }
  }

  AllocationProgram const& small_;
  AllocationProgram const& large_;
  std::int64_t small_size_;
  std::int64_t large_size_;
  std::vector<RequestLifetime> small_lives_;
  std::vector<RequestLifetime> large_lives_;
  std::unordered_set<std::int64_t> constant_sizes_;  // of requests that are the same in both
  TraceAlignment result_;
};

}  // namespace MAXBATCH_ABI_NAMESPACE
}  // namespace detail

inline namespace MAXBATCH_ABI_NAMESPACE {

MAXBATCH_INLINE TraceAlignment align_programs(SizedProgram const& smaller, SizedProgram const& larger) {
  if (smaller.batch_size < 1 || larger.batch_size <= smaller.batch_size) {
    throw InvalidArgument("batch sizes " + std::to_string(smaller.batch_size) + " and " +
                          std::to_string(larger.batch_size) + "; the first must be at least 1 and below the second");
  }
  return detail::ProgramAligner(smaller, larger).align();
}

}  // namespace MAXBATCH_ABI_NAMESPACE
}  // namespace maxbatch
