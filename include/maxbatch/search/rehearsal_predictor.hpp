#pragma once

#include <maxbatch/search/peak_predictor.hpp>
#include <maxbatch/search/trial_outcome.hpp>

#include <cstdint>
#include <optional>

namespace maxbatch {
inline namespace MAXBATCH_ABI_NAMESPACE {

/// Points at the answer of a rehearsal (the same search on a dry card, or a recorded answer) until a trial contradicts it;
/// from then on at what `otherwise` says, which has watched from the start.
class RehearsalPredictor : public PeakPredictor {
 public:
  /// `otherwise` may be null, and outlives this.
  RehearsalPredictor(std::int64_t rehearsed, PeakPredictor* otherwise) : rehearsed_(rehearsed), otherwise_(otherwise) {}

  void observe(TrialRecord const& record) override {
    if (otherwise_ != nullptr) { otherwise_->observe(record); }
    auto const fits = is_fit(record.outcome.verdict);
    if (fits ? record.batch_size > rehearsed_ : record.batch_size <= rehearsed_) { is_contradicted_ = true; }
  }

  std::optional<Prediction> predict() const override {
    if (!is_contradicted_) { return Prediction{rehearsed_, rehearsed_, rehearsed_}; }
    return otherwise_ != nullptr ? otherwise_->predict() : std::nullopt;
  }

  bool is_contradicted() const { return is_contradicted_; }

 private:
  std::int64_t rehearsed_;
  PeakPredictor* otherwise_;
  bool is_contradicted_ = false;
};

}  // namespace MAXBATCH_ABI_NAMESPACE
}  // namespace maxbatch
