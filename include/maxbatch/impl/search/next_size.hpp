#pragma once

#include <maxbatch/impl/search/search_state.hpp>
#include <maxbatch/search/allowed_sizes.hpp>
#include <maxbatch/search/peak_predictor.hpp>
#include <maxbatch/search/trial_record.hpp>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <utility>

namespace maxbatch {
namespace detail {
inline namespace MAXBATCH_ABI_NAMESPACE {

/// Picks the next size inside the bracket: scouts first, then where the predictor points, else doubling and bisection.
class NextSize {
 public:
  struct Choice {
    std::int64_t index;
    TrialPurpose purpose;
  };

  NextSize(AllowedSizes const& sizes, PeakPredictor const* predictor) : sizes_(sizes), predictor_(predictor) {}

  Choice choose(SearchState const& state) {
    auto const choice = choose_in_bracket(state);
    chose_by_prediction_ = choice.purpose == TrialPurpose::predicted;
    width_before_ = width_of(state);
    return choice;
  }

  /// After the trial: a prediction that did not halve a finite bracket is trusted less.
  void learn(SearchState const& state) {
    if (!chose_by_prediction_ || width_before_ < 0) { return; }
    distrust_ = 2 * width_of(state) > width_before_ + 1 ? distrust_ + 1 : 0;
  }

 private:
  static std::int64_t width_of(SearchState const& state) {
    return state.has_failure_above() ? state.bad() - state.good() - 1 : -1;
  }

  Choice choose_in_bracket(SearchState const& state) {
    auto const good = state.good();
    auto const bad = state.bad();
    auto const prediction = predictor_ != nullptr ? predictor_->predict() : std::nullopt;
    if (auto const scout = wanted_scout(state)) { return {*scout, TrialPurpose::scout}; }
    bool const nothing_tried = good < 0 && !state.has_failure_above();
    if (good < 0 && !(nothing_tried && prediction)) { return {0, TrialPurpose::scout}; }
    if (good == 0 &&
        !tried_second_) {  // as far from the first as is sure to fit, so that rounding blurs the slope least
      tried_second_ = true;
      auto const sure = prediction ? sizes_.index_at_most(prediction->at_least) : 1;
      return {std::clamp(sure, std::int64_t{1}, bad - 1), TrialPurpose::scout};
    }
    constexpr int kMissesBeforeBisection = 2;
    if (prediction && (distrust_ < kMissesBeforeBisection || !state.has_failure_above())) {
      return {follow(*prediction, good, bad, state.has_failure_above()), TrialPurpose::predicted};
    }
    if (!state.has_failure_above()) {
      auto const doubled = sizes_.index_at_most(2 * sizes_.at(good));
      return {std::clamp(doubled, good + 1, bad - 1), TrialPurpose::scout};
    }
    distrust_ = distrust_ > 0 ? 1 : 0;
    return {good + (bad - good) / 2, TrialPurpose::bracket};
  }

  std::optional<std::int64_t> wanted_scout(SearchState const& state) const {
    if (predictor_ == nullptr) { return std::nullopt; }
    for (auto const size : predictor_->scouts()) {
      auto const index = sizes_.index_at_most(size);
      if (index > state.good() && index < state.bad() && sizes_.at(index) == size) { return index; }
    }
    return std::nullopt;
  }

  std::int64_t follow(Prediction const& prediction, std::int64_t good, std::int64_t bad, bool bad_failed) {
    auto const best = sizes_.index_at_most(prediction.best);
    auto const safe = std::max(sizes_.index_at_most(prediction.at_least), good);
    auto const top = prediction.at_most ? std::min(sizes_.index_at_most(*prediction.at_most), bad - 1) : bad - 1;
    bool const is_narrow = prediction.at_most && top - safe <= kNarrow;
    auto const halve = [good, bad](std::int64_t low, std::int64_t high) {
      return std::clamp(low + (high - low + 1) / 2, good + 1, bad - 1);
    };
    if (best > good && best < bad) {
      stride_up_ = stride_down_ = 0;
      if (is_narrow) { return best; }
      // Readings and failures together: halve what both leave open.
      if (bad_failed) { return halve(safe, top); }
      // A wide range: the size that is sure to fit narrows it at the cost of no failure, if it is any way up.
      return safe > good && (!prediction.at_most || 4 * (safe - good) >= top - safe) ? safe : best;
    }
    if (best <= good) {  // said to be the boundary: the next size proves it; stride out while it keeps fitting
      if (prediction.at_most && top > good) { return is_narrow ? good + 1 : halve(good, top); }
      auto const stride = stride_up_ == 0 ? 1 : std::min(std::max(stride_up_, good / kCloseBy), bad - good);
      stride_up_ = 2 * stride;
      return bad_failed ? std::min(good + stride, stride == 1 ? good + 1 : halve(good, bad))
                        : std::min(good + stride, bad - 1);
    }
    // Said to be at or beyond a size that failed. What the readings still allow below it comes first, then close by.
    if (!bad_failed) { return bad - 1; }
    if (safe <= bad - 1) { return halve(std::max(safe - 1, good), bad - 1); }
    auto const stride = std::min(std::max({stride_down_, bad / kCloseBy, std::int64_t{1}}), bad - good);
    stride_down_ = 2 * stride;
    return std::max(bad - stride, stride == 1 ? good + 1 : halve(good, bad - 1));
  }

  static constexpr std::int64_t kNarrow = 3;    // candidates between which the prediction's best is as good as halving
  static constexpr std::int64_t kCloseBy = 32;  // a wrong prediction is first taken to be wrong by a thirty-second

  AllowedSizes const& sizes_;
  PeakPredictor const* predictor_;
  bool tried_second_ = false;
  bool chose_by_prediction_ = false;
  std::int64_t width_before_ = -1;
  int distrust_ = 0;
  std::int64_t stride_up_ = 0;
  std::int64_t stride_down_ = 0;
};

}  // namespace MAXBATCH_ABI_NAMESPACE
}  // namespace detail
}  // namespace maxbatch
