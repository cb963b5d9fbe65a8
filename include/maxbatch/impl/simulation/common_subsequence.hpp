#pragma once

#include <maxbatch/config.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

namespace maxbatch::detail {
inline namespace MAXBATCH_ABI_NAMESPACE {

using IndexPair = std::pair<std::uint32_t, std::uint32_t>;

/// The longest common subsequence of two sequences, as pairs of indices: Myers' greedy algorithm, "An O(ND) difference
/// algorithm and its variations" (1986). `equal(i, j)` need not be transitive. Nothing when more than `most_edits`
/// elements would be left out; time and memory grow with the square of those.
template <class Equal>
std::optional<std::vector<IndexPair>> common_subsequence(std::int64_t n, std::int64_t m, Equal const& equal,
                                                         std::int64_t most_edits) {
  most_edits = std::min(most_edits, n + m);
  std::vector<std::int64_t> furthest(static_cast<std::size_t>(2 * most_edits + 3), 0);  // by diagonal x - y
  auto at = [&](std::int64_t diagonal) -> std::int64_t& {
    return furthest[static_cast<std::size_t>(diagonal + most_edits + 1)];
  };
  std::vector<std::vector<std::int32_t>> history;  // of the diagonals -edits .. edits, before each round
  auto came_down = [](std::int64_t diagonal, std::int64_t edits, std::int64_t below, std::int64_t above) {
    return diagonal == -edits || (diagonal != edits && below < above);
  };

  for (std::int64_t edits = 0; edits <= most_edits; ++edits) {
    std::vector<std::int32_t> before;
    before.reserve(static_cast<std::size_t>(2 * edits + 3));
    for (std::int64_t k = -edits - 1; k <= edits + 1; ++k) { before.push_back(static_cast<std::int32_t>(at(k))); }
    history.push_back(std::move(before));
    for (std::int64_t k = -edits; k <= edits; k += 2) {
      auto x = came_down(k, edits, at(k - 1), at(k + 1)) ? at(k + 1) : at(k - 1) + 1;
      auto y = x - k;
      while (x < n && y < m && y >= 0 && equal(static_cast<std::uint32_t>(x), static_cast<std::uint32_t>(y))) {
        ++x;
        ++y;
      }
      at(k) = x;
      if (x < n || y < m) { continue; }

      std::vector<IndexPair> pairs;
      for (auto left = edits; left >= 0; --left) {
        auto const& old = history[static_cast<std::size_t>(left)];
        auto old_at = [&](std::int64_t diagonal) -> std::int64_t {
          return old[static_cast<std::size_t>(diagonal + left + 1)];
        };
        auto const diagonal = x - y;
        std::int64_t from_x = 0;
        std::int64_t from_y = 0;
        if (left > 0) {
          auto const from =
              came_down(diagonal, left, old_at(diagonal - 1), old_at(diagonal + 1)) ? diagonal + 1 : diagonal - 1;
          from_x = old_at(from);
          from_y = from_x - from;
        }
        while (x > from_x && y > from_y) {
          --x;
          --y;
          pairs.emplace_back(static_cast<std::uint32_t>(x), static_cast<std::uint32_t>(y));
        }
        x = from_x;
        y = from_y;
      }
      std::reverse(pairs.begin(), pairs.end());
      return pairs;
    }
  }
  return std::nullopt;
}

}  // namespace MAXBATCH_ABI_NAMESPACE
}  // namespace maxbatch::detail
