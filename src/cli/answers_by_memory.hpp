#pragma once

#include <maxbatch/bytes.hpp>
#include <maxbatch/search/peak_predictor.hpp>

#include <cstdint>
#include <map>
#include <mutex>
#include <optional>

namespace maxbatch::cli {

/// What one model's searches on other cards came to, by the memory they had: says where a search on another card may begin.
/// Cards differ in more than their memory, so this only picks the first trial, as every prediction does.
/// Threads: all members, from any thread.
class AnswersByMemory {
 public:
  void add(Bytes memory, std::int64_t batch_size);
  /// On the line through the nearest answers; none: fewer than two are known.
  std::optional<std::int64_t> expected(Bytes memory) const;

 private:
  mutable std::mutex mutex_;
  std::map<std::int64_t, std::int64_t> answers_;
};

/// Points at one size, whatever trials say: the search strides away from it where it is wrong.
class ExpectedSize : public PeakPredictor {
 public:
  explicit ExpectedSize(std::int64_t size) : size_(size) {}
  void observe(TrialRecord const& /*record*/) override {}
  std::optional<Prediction> predict() const override { return Prediction{size_, size_, size_}; }

 private:
  std::int64_t size_;
};

}  // namespace maxbatch::cli
