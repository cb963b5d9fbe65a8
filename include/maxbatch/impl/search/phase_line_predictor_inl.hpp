#pragma once

#include <maxbatch/search/errors.hpp>
#include <maxbatch/search/phase_line_predictor.hpp>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

namespace maxbatch {
inline namespace MAXBATCH_ABI_NAMESPACE {

/// The readings at the largest sizes that one line agrees with, seen through windows of `window` bytes below each value.
struct PhaseLinePredictor::Trend {
  std::vector<Reading> readings;
  double window = 0;
  std::int64_t granule = 1;
  bool leaves_some_behind = false;  // smaller sizes follow another law
};

struct PhaseLinePredictor::Range {
  double at_least = std::numeric_limits<double>::infinity();
  double best = std::numeric_limits<double>::infinity();
  double at_most = std::numeric_limits<double>::infinity();
  bool grows = false;  // the slope is above zero in every line that agrees with the readings
};

}  // namespace MAXBATCH_ABI_NAMESPACE

namespace detail {
inline namespace MAXBATCH_ABI_NAMESPACE {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// How far beyond the largest tried size a prediction may reach: two points always lie on a line, three that do are
/// evidence, and two that are left after a kink are weak.
constexpr double kReachOfTwo = 16;
constexpr double kReachAfterKink = 4;
constexpr double kReachOfThree = 1 << 14;
constexpr double kReachOfTotal = 4;
constexpr double kReachOfVagueTotal = 2;

inline std::int64_t granule_of(std::int64_t const* values, std::size_t count) {
  constexpr std::int64_t kGranules[] = {std::int64_t{20} << 20, std::int64_t{2} << 20, 512};
  for (auto const granule : kGranules) {
    if (std::all_of(values, values + count, [granule](std::int64_t v) { return v % granule == 0; })) { return granule; }
  }
  return 1;
}

}  // namespace MAXBATCH_ABI_NAMESPACE
}  // namespace detail

inline namespace MAXBATCH_ABI_NAMESPACE {
MAXBATCH_INLINE PhaseLinePredictor::PhaseLinePredictor(Bytes limit, double exponent)
    : limit_bytes_(limit.count), exponent_(exponent) {
  if (limit.count <= 0) {
    throw InvalidArgument("the memory limit is " + std::to_string(limit.count) + " bytes; it must be above zero");
  }
  if (!(exponent >= 1.0)) {
    throw InvalidArgument("the exponent is " + std::to_string(exponent) + "; it must be at least 1");
  }
}

MAXBATCH_INLINE void PhaseLinePredictor::observe(TrialRecord const& record) {
  if (!is_fit(record.outcome.verdict) || record.outcome.peaks.reserved.count <= 0) { return; }
  auto const [entry, is_new] = fits_.try_emplace(record.batch_size, record.outcome);
  if (!is_new && record.outcome.peaks.reserved > entry->second.peaks.reserved) { entry->second = record.outcome; }
}

MAXBATCH_INLINE std::int64_t PhaseLinePredictor::size_of(double work) const {
  constexpr double kLargest = 1e15;
  if (!(work < std::pow(kLargest, exponent_))) { return static_cast<std::int64_t>(kLargest); }
  if (work <= 0) { return 0; }
  // The small bias keeps a whole number whole where the division fell just short of it.
  return static_cast<std::int64_t>(std::floor(std::pow(work, 1.0 / exponent_) * (1 + 1e-12) + 1e-9));
}

MAXBATCH_INLINE PhaseLinePredictor::Trend PhaseLinePredictor::trend_of(std::vector<Reading> const& readings) {
  Trend trend;
  std::vector<std::int64_t> values;
  double largest_drop = 0;
  for (std::size_t i = 0; i < readings.size(); ++i) {
    values.push_back(readings[i].bytes);
    if (i > 0) {
      largest_drop = std::max(largest_drop, static_cast<double>(readings[i - 1].bytes - readings[i].bytes));
    }
  }
  // Peaks that fell while the size rose show noise that rounding does not explain; a rise of its order means nothing.
  constexpr double kNoiseOverDrop = 4;
  trend.granule = detail::granule_of(values.data(), values.size());
  trend.window = std::max(trend.granule == 1 ? 0 : static_cast<double>(trend.granule), kNoiseOverDrop * largest_drop);

  // Windows that any three of have a common line all have one (Helly's theorem in the plane).
  auto const agree = [](Reading const& a, Reading const& b, Reading const& c, double window) {
    auto const share = (b.work - a.work) / (c.work - a.work);
    auto const middle = static_cast<double>(a.bytes) + share * static_cast<double>(c.bytes - a.bytes);
    auto const slack = window + 1e-9 * std::abs(middle);  // rounding of the arithmetic, not of the readings
    return std::abs(middle - static_cast<double>(b.bytes)) <= slack;
  };
  auto const agreeing_from_the_end = [&](double window) {
    std::size_t first = readings.size();
    while (first > 0) {
      auto const candidate = first - 1;
      bool all_agree = true;
      for (auto b = candidate + 1; all_agree && b < readings.size(); ++b) {
        for (auto c = b + 1; all_agree && c < readings.size(); ++c) {
          all_agree = agree(readings[candidate], readings[b], readings[c], window);
        }
      }
      if (!all_agree) { break; }
      first = candidate;
    }
    return first;
  };
  auto first = agreeing_from_the_end(trend.window);
  // Three or more readings exactly on a rising line, with a slope that rounding would leave as it is, are taken at their
  // word. (Rounded readings can lie on a line by accident; their slope is then hardly a multiple of the granule.)
  auto const first_exact = agreeing_from_the_end(0);
  if (largest_drop == 0 && readings.size() - first_exact >= 3) {
    auto const rise = readings.back().bytes - readings[first_exact].bytes;
    auto const run = readings.back().work - readings[first_exact].work;
    auto const slope = static_cast<double>(rise) / run / static_cast<double>(trend.granule);
    if (rise > 0 && (trend.granule == 1 || slope == std::floor(slope))) {
      trend.window = 0;
      trend.granule = 1;
      first = first_exact;
    }
  }
  trend.leaves_some_behind = first > 0;
  trend.readings.assign(readings.begin() + static_cast<std::ptrdiff_t>(first), readings.end());
  return trend;
}

MAXBATCH_INLINE PhaseLinePredictor::Range PhaseLinePredictor::range_of(Trend const& trend,
                                                                       std::int64_t limit_bytes) const {
  Range range;
  auto const& readings = trend.readings;
  if (readings.size() < 2) { return range; }
  // What rounds up to a multiple of the granule fits up to the last multiple within the limit.
  auto const whole_limit = trend.granule > 1 ? limit_bytes / trend.granule * trend.granule : limit_bytes;
  auto const limit = static_cast<double>(whole_limit);
  // The steepest and flattest lines through two windows bound every line through both; beyond the readings the tightest
  // pair decides.
  double at_least = 0;
  for (std::size_t i = 0; i < readings.size(); ++i) {
    for (auto j = i + 1; j < readings.size(); ++j) {
      auto const run = readings[j].work - readings[i].work;
      auto const rise = static_cast<double>(readings[j].bytes - readings[i].bytes);
      auto const steepest = (rise + trend.window) / run;
      auto const flattest = (rise - trend.window) / run;
      auto const value = static_cast<double>(readings[j].bytes);
      at_least = std::max(at_least, steepest > 0 ? readings[j].work + (limit - value) / steepest : detail::kInfinity);
      if (flattest > 0) {
        range.at_most = std::min(range.at_most, readings[j].work + (limit - (value - trend.window)) / flattest);
        range.grows = true;
      }
    }
  }
  range.at_least = at_least;
  auto const run = readings.back().work - readings.front().work;
  auto const slope = static_cast<double>(readings.back().bytes - readings.front().bytes) / run;
  if (range.grows && slope > 0) {
    auto const last = static_cast<double>(readings.back().bytes) - trend.window / 2;
    range.best = std::clamp(readings.back().work + (limit - last) / slope, range.at_least, range.at_most);
  }
  return range;
}

MAXBATCH_INLINE std::optional<Prediction> PhaseLinePredictor::predict() const {
  if (fits_.empty()) { return std::nullopt; }
  auto const& largest = *fits_.rbegin();
  auto const work_of = [this](std::int64_t size) { return std::pow(static_cast<double>(size), exponent_); };
  // What the allocator holds beyond what is allocated in it, as it was at the largest size.
  auto const overhead = largest.second.peaks.reserved.count - largest.second.peaks.allocated.count;
  auto const limit = limit_bytes_ - overhead;

  std::map<Phase, std::vector<Reading>> by_phase;
  bool const has_phases = !largest.second.phases.empty();
  for (auto const& [size, outcome] : fits_) {
    if (!has_phases) { by_phase[Phase::other].push_back({work_of(size), outcome.peaks.allocated.count}); }
    for (auto const& phase : outcome.phases) {
      by_phase[phase.phase].push_back({work_of(size), phase.peaks.allocated.count});
    }
  }

  Range all;
  double reach = detail::kReachOfThree;
  for (auto const& [phase, readings] : by_phase) {
    auto const trend = trend_of(readings);
    auto const range = range_of(trend, limit);
    all.at_least = std::min(all.at_least, range.at_least);
    all.at_most = std::min(all.at_most, range.at_most);
    all.best = std::min(all.best, range.best);
    all.grows = all.grows || range.grows;
    if (range.grows && trend.readings.size() < 3) {
      reach = std::min(reach, trend.leaves_some_behind ? detail::kReachAfterKink : detail::kReachOfTwo);
    }
    // A total's slope only ever grows, since each phase that takes over is steeper: the line seen may be the floor's.
    if (range.grows && !has_phases && trend.window > 0) {
      reach = std::min(reach, range.at_most > 2 * range.at_least ? detail::kReachOfVagueTotal : detail::kReachOfTotal);
    }
  }

  auto const tried = work_of(largest.first);
  if (!all.grows) {
    // Flat so far. A floor in the total may hide a growing phase below it, so only the proportion is safe; a phase of its
    // own that is flat to within its window bounds its slope.
    auto const proportional =
        tried * static_cast<double>(limit_bytes_) / static_cast<double>(largest.second.peaks.reserved.count);
    auto const safe = has_phases && fits_.size() > 1 ? std::max(proportional, all.at_least) : proportional;
    auto const size = size_of(std::min(safe, tried * detail::kReachOfTwo));
    if (fits_.size() > 1 && size < 2 * largest.first) { return std::nullopt; }  // doubling is faster
    return Prediction{size, size, std::nullopt};
  }
  auto const farthest = tried * reach;
  auto const best = std::min(all.best, farthest);
  Prediction prediction;
  prediction.best = size_of(best);
  prediction.at_least = size_of(std::min(all.at_least, best));
  if (all.at_most <= farthest) { prediction.at_most = std::max(size_of(all.at_most), prediction.best); }
  return prediction;
}

}  // namespace MAXBATCH_ABI_NAMESPACE
}  // namespace maxbatch
