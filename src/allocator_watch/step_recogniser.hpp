#pragma once

#include <cstdint>
#include <vector>

namespace maxbatch::dry {

/// What one step took, on all devices together.
struct StepFigures {
  std::int64_t peak_allocated_bytes = 0;
  std::int64_t reserved_bytes = 0;  ///< at its end
  std::int64_t retries = 0;         ///< requests in it that passed only after the cache was given back
  std::uint64_t layout = 0;         ///< of the allocator's segments at its end, where there were retries

  friend bool operator==(StepFigures const& a, StepFigures const& b) {
    return a.peak_allocated_bytes == b.peak_allocated_bytes && a.reserved_bytes == b.reserved_bytes &&
           a.retries == b.retries && a.layout == b.layout;
  }
};

/// Says when the steps of a training program repeat themselves, so that nothing new is to be expected of further ones.
///
/// They do when the last ones equal those before: one step, or a round of up to 16 (two optimizers in turn, accumulated
/// gradients), of which `wanted` have run. Steps that needed retries must have left a layout behind that was there before: from
/// then on everything is the same again. Where steps differ for ever (sentences of all lengths), it is enough that half of all
/// steps, and at least 20, brought no new peak.
class StepRecogniser {
 public:
  explicit StepRecogniser(std::int64_t wanted) : wanted_(wanted) {}

  void add(StepFigures const& step);
  std::int64_t count() const { return static_cast<std::int64_t>(steps_.size()); }
  bool is_settled() const;

 private:
  bool repeats(std::int64_t round) const;
  bool is_without_news() const;

  std::int64_t wanted_;
  std::vector<StepFigures> steps_;
  std::int64_t peak_allocated_bytes_ = 0;
  std::int64_t peak_reserved_bytes_ = 0;
  std::int64_t last_news_ = 0;  // steps up to the last one with a new peak
};

}  // namespace maxbatch::dry
