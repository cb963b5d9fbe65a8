#pragma once

#include <maxbatch/config.hpp>

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace maxbatch::detail {
inline namespace MAXBATCH_ABI_NAMESPACE {

/// How many letters have to be put in, taken out, replaced or swapped with their neighbour to make `b` of `a`.
inline std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> before_last;
  std::vector<std::size_t> last(b.size() + 1);
  std::iota(last.begin(), last.end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::vector<std::size_t> row(b.size() + 1);
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      row[j] = std::min({last[j] + 1, row[j - 1] + 1, last[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1)});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        row[j] = std::min(row[j], before_last[j - 2] + 1);
      }
    }
    before_last = std::move(last);
    last = std::move(row);
  }
  return last[b.size()];
}

/// The known name that `name` most probably is a slip of; none when nothing is near enough to be helpful.
inline std::optional<std::string> nearest_name(std::string_view name, std::vector<std::string> const& known) {
  std::optional<std::string> nearest;
  // A third of the letters may be wrong: "smal_cnn" is small_cnn, "resnet" is not.
  std::size_t smallest = std::max<std::size_t>(name.size() / 3, 1) + 1;
  for (auto const& candidate : known) {
    auto const distance = edit_distance(name, candidate);
    if (distance < smallest) {
      smallest = distance;
      nearest = candidate;
    }
  }
  return nearest;
}

}  // namespace MAXBATCH_ABI_NAMESPACE
}  // namespace maxbatch::detail
