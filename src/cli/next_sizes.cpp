#include "next_sizes.hpp"

#include <maxbatch/search/batch_size_search.hpp>

#include <algorithm>
#include <deque>
#include <exception>

namespace maxbatch::cli {
namespace {

struct Question {
  TrialKey key;
  std::optional<Prediction> prediction;  // when it was asked
};

/// What the search asks first that is not known.
std::optional<Question> first_unknown(SearchOptions options, KnownTrials const& known,
                                      MakePredictor const& make_predictor) {
  options.max_duration.reset();
  options.before_retry = nullptr;
  auto const predictor = make_predictor();
  std::map<std::int64_t, std::size_t> asked;
  std::optional<Question> unknown;
  // The search turns exceptions of a probe into outcomes, so an unknown size is remembered, and the search told to stop.
  class StopAtUnknown : public SearchObserver {
   public:
    explicit StopAtUnknown(std::optional<Question> const& unknown) : unknown_(unknown) {}
    bool stop_requested() override { return unknown_.has_value(); }

   private:
    std::optional<Question> const& unknown_;
  } stop(unknown);
  auto const probe = [&](std::int64_t size) {
    TrialKey const key{size, asked[size]++};
    auto const found = known.find(key);
    if (found != known.end()) { return found->second; }
    unknown = Question{key, predictor->predict()};
    return TrialOutcome::fits();
  };
  try {
    search_largest_batch_size(probe, options, predictor.get(), &stop);
  } catch (std::exception const&) { return std::nullopt; }
  return unknown;
}

/// By the largest two sizes that fit, or in proportion to the only one.
std::optional<Bytes> guessed_peak(KnownTrials const& known, std::int64_t size) {
  std::vector<std::pair<std::int64_t, std::int64_t>> points;
  for (auto const& [key, outcome] : known) {
    auto const is_new = points.empty() || points.back().first != key.size;
    if (is_new && is_fit(outcome.verdict) && outcome.peaks.reserved.count > 0) {
      points.emplace_back(key.size, outcome.peaks.reserved.count);
    }
  }
  if (points.empty()) { return std::nullopt; }
  auto const [x1, y1] = points.back();
  auto const [x0, y0] = points.size() > 1 ? points[points.size() - 2] : std::pair<std::int64_t, std::int64_t>{0, 0};
  auto const slope = static_cast<double>(y1 - y0) / static_cast<double>(x1 - x0);
  return Bytes{y1 + static_cast<std::int64_t>(slope * static_cast<double>(size - x1))};
}

}  // namespace

std::vector<TrialKey> next_trials(SearchOptions const& options, KnownTrials const& known, std::optional<Bytes> limit,
                                  MakePredictor const& make_predictor, std::size_t count) {
  std::vector<TrialKey> wanted;
  // Breadth first over guesses: the probable one of each pair ahead of the other.
  std::deque<KnownTrials> worlds = {known};
  constexpr int kMostWorlds = 16;
  for (int i = 0; i < kMostWorlds && !worlds.empty() && wanted.size() < count; ++i) {
    auto const world = std::move(worlds.front());
    worlds.pop_front();
    auto const question = first_unknown(options, world, make_predictor);
    if (!question) { continue; }
    auto const& next = question->key;
    auto const is_new =
        std::none_of(wanted.begin(), wanted.end(), [&](TrialKey const& one) { return !(one < next) && !(next < one); });
    if (is_new) { wanted.push_back(next); }
    auto const peak = guessed_peak(world, next.size);
    auto fits = world;
    fits[next] = TrialOutcome::fits(peak ? MemoryPeaks::all(*peak) : MemoryPeaks{});
    auto fails = world;
    fails[next] = TrialOutcome::out_of_memory();
    // A size that failed once fails again; else as is predicted, or as the peaks of smaller ones let guess.
    auto const is_repeat = next.number > 0;
    auto const guess = !limit || !peak || *peak <= *limit;
    auto const likely_fits = !is_repeat && (question->prediction ? next.size <= question->prediction->best : guess);
    worlds.push_back(std::move(likely_fits ? fits : fails));
    if (!is_repeat) { worlds.push_back(std::move(likely_fits ? fails : fits)); }
  }
  return wanted;
}

}  // namespace maxbatch::cli
