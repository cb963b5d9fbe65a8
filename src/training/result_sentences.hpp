#pragma once

#include <maxbatch/training/finder_result.hpp>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace maxbatch::detail {

/// "22 fits: 3 steps, peak reserved 10,624 of 10,700 MiB (bracketed). 23 does not: backward asked for 56 MiB, at least
/// 12 MiB short." `name_of` turns a searched size into the reader's words.
std::string summarise(FinderResult const& result, std::function<std::string(std::int64_t)> const& name_of);

/// What a careful reader should know of the search itself.
std::vector<std::string> warnings_of(SearchResult const& result);

}  // namespace maxbatch::detail
