#pragma once

#include <maxbatch/simulation/modelled_peak.hpp>

#include <map>

namespace maxbatch {
inline namespace MAXBATCH_ABI_NAMESPACE {

MAXBATCH_INLINE ModelledPeak modelled_peak(std::function<std::optional<Bytes>(std::uint64_t seed)> const& replay,
                                           int draws) {
  ModelledPeak peak;
  std::map<std::int64_t, int> how_often;
  for (int draw = 0; draw < draws; ++draw) {
    ++peak.draws;
    if (auto const reached = replay(static_cast<std::uint64_t>(draw) + 1)) {
      ++how_often[reached->count];
    } else {
      ++peak.out_of_memory;
    }
  }
  if (how_often.empty()) { return peak; }
  peak.lowest = Bytes{how_often.begin()->first};
  peak.highest = Bytes{how_often.rbegin()->first};
  int most = 0;
  for (auto const& [bytes, times] : how_often) {
    if (times > most) {
      most = times;
      peak.most_frequent = Bytes{bytes};
    }
  }
  return peak;
}

}  // namespace MAXBATCH_ABI_NAMESPACE
}  // namespace maxbatch
