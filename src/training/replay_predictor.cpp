#include <maxbatch/search/errors.hpp>
#include <maxbatch/simulation/trace_file.hpp>
#include <maxbatch/training/replay_predictor.hpp>

#include <algorithm>
#include <string>
#include <utility>

namespace maxbatch {
namespace {

/// How far trials may be from a prediction that is still believed, as one part of it.
constexpr std::int64_t kBelievedPart = 16;

}  // namespace

ReplayPredictor::ReplayPredictor(PredictionTarget target, PeakPredictor* otherwise, ScalingOptions const& scaling,
                                 PredictionOptions const& options)
    : target_(std::move(target)), otherwise_(otherwise), scaling_(scaling), options_(options) {}

void ReplayPredictor::want_recordings_of(std::vector<std::int64_t> sizes) { wanted_ = std::move(sizes); }

void ReplayPredictor::no_longer_want(std::int64_t batch_size) {
  wanted_.erase(std::remove(wanted_.begin(), wanted_.end(), batch_size), wanted_.end());
}

void ReplayPredictor::add_recording(std::int64_t batch_size, AllocationTrace const& trace) {
  detail::require_at_least_one(batch_size, "batch size");
  auto const is_known = std::any_of(recordings_.begin(), recordings_.end(),
                                    [&](SizedProgram const& known) { return known.batch_size == batch_size; });
  no_longer_want(batch_size);
  if (is_known) { return; }
  try {
    recordings_.push_back({batch_size, program_of(trace)});
    is_current_ = false;
  } catch (TraceError const& error) { problem_ = "batch " + std::to_string(batch_size) + ": " + error.what(); }
}

void ReplayPredictor::observe(TrialRecord const& record) {
  if (otherwise_ != nullptr) { otherwise_->observe(record); }
  auto const size = record.batch_size;
  no_longer_want(size);
  if (is_fit(record.outcome.verdict)) {
    largest_fitting_ = std::max(largest_fitting_.value_or(size), size);
    if (smallest_failing_ && *smallest_failing_ <= size) { smallest_failing_.reset(); }
  } else if (!largest_fitting_ || size > *largest_fitting_) {
    smallest_failing_ = std::min(smallest_failing_.value_or(size), size);
  }
}

std::optional<BatchPrediction> const& ReplayPredictor::prediction() const {
  if (!is_current_) { make_prediction(); }
  return prediction_;
}

void ReplayPredictor::make_prediction() const {
  is_current_ = true;
  prediction_.reset();
  if (recordings_.size() < 2) { return; }
  try {
    prediction_ = predict_largest_batch(TraceScaling(recordings_, scaling_), target_, options_);
    problem_.clear();
  } catch (TraceError const& error) { problem_ = error.what(); }
}

std::optional<Prediction> ReplayPredictor::predict() const {
  auto const fall_back = [this] { return otherwise_ != nullptr ? otherwise_->predict() : std::nullopt; };
  auto const& predicted = prediction();
  if (!predicted || !predicted->elastic_largest_batch_size) { return fall_back(); }
  // Where a workspace is short, the library did with less in every run that was compared: docs/prediction.md.
  auto const best = *predicted->elastic_largest_batch_size;
  auto const strict = predicted->largest_batch_size.value_or(0);
  auto const believed = std::max<std::int64_t>(1, best / kBelievedPart);
  if (!smallest_failing_ || *smallest_failing_ > best) {
    if (largest_fitting_ && *largest_fitting_ > best) { return fall_back(); }
    return Prediction{strict, best, best};
  }
  auto const below = *smallest_failing_ - 1;
  if (best - below > believed) { return fall_back(); }
  return Prediction{std::min(strict, below), below, below};
}

}  // namespace maxbatch
