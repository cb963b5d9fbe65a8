#pragma once

#include <maxbatch/search/search_observer.hpp>

#include <cstdint>
#include <optional>
#include <string>

namespace maxbatch::detail {

/// Sits between the search and the caller's observer; ends a search whose step leaves more behind with every trial, since
/// each answer would then be smaller than the last.
class LeakWatch : public SearchObserver {
 public:
  explicit LeakWatch(SearchObserver* next) : next_(next) {}

  void after_trial(std::int64_t size, Bytes still_allocated) {
    growing_ = still_allocated > last_ && still_allocated.count > 0 ? growing_ + 1 : 0;
    last_ = still_allocated;
    total_ = total_ + still_allocated;
    if (still_allocated.count > 0) { last_size_ = size; }
  }

  bool has_leaked() const { return total_.count > 0; }
  bool must_stop() const { return growing_ >= kTrialsOfGrowth; }
  std::string describe() const {
    return to_string(total_) + " that trials allocated were still allocated after their clean-up (last at size " +
           std::to_string(last_size_) + "): the step keeps tensors alive, or works on state that is not preserved";
  }

  void trial_started(std::int64_t size, TrialPurpose purpose, SearchProgress const& progress) override {
    if (next_ != nullptr) { next_->trial_started(size, purpose, progress); }
  }
  void trial_finished(TrialRecord const& record) override {
    if (next_ != nullptr) { next_->trial_finished(record); }
  }
  bool stop_requested() override { return must_stop() || (next_ != nullptr && next_->stop_requested()); }

 private:
  static constexpr int kTrialsOfGrowth = 3;

  SearchObserver* next_;
  Bytes last_;
  Bytes total_;
  std::int64_t last_size_ = 0;
  int growing_ = 0;
};

}  // namespace maxbatch::detail
