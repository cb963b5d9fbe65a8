#pragma once

#include <maxbatch/search/batch_size_search.hpp>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <utility>
#include <vector>

namespace maxbatch::test {

/// A probe that knows its answers, and remembers what it was asked.
class ScriptedProbe {
 public:
  using Script = std::function<TrialOutcome(std::int64_t batch_size, std::int64_t call)>;

  explicit ScriptedProbe(Script script) : script_(std::move(script)) {}

  static ScriptedProbe fits_up_to(std::int64_t largest) {
    return ScriptedProbe([largest](std::int64_t size, std::int64_t) {
      return size <= largest ? TrialOutcome::fits() : TrialOutcome::out_of_memory();
    });
  }

  /// By memory: the outcome has peaks when it fits, and is a memory failure when any phase is above the budget.
  using Law = std::function<std::vector<PhasePeaks>(std::int64_t batch_size)>;
  static ScriptedProbe of_memory(Law law, Bytes budget, bool tells_phases = true) {
    return ScriptedProbe([law = std::move(law), budget, tells_phases](std::int64_t size, std::int64_t) {
      auto const phases = law(size);
      MemoryPeaks peaks;
      for (auto const& phase : phases) { peaks = larger_of_each(peaks, phase.peaks); }
      if (peaks.reserved > budget) { return TrialOutcome::out_of_memory(); }
      return tells_phases ? TrialOutcome::fits(peaks, phases) : TrialOutcome::fits(peaks);
    });
  }

  /// Shares what it remembers with its copies.
  TrialOutcome operator()(std::int64_t size) const {
    asked_->push_back(size);
    return script_(size, ++(*calls_)[size]);
  }

  std::vector<std::int64_t> const& asked() const { return *asked_; }
  std::int64_t calls_at(std::int64_t size) const {
    auto const entry = calls_->find(size);
    return entry == calls_->end() ? 0 : entry->second;
  }

 private:
  Script script_;
  std::shared_ptr<std::vector<std::int64_t>> asked_ = std::make_shared<std::vector<std::int64_t>>();
  std::shared_ptr<std::map<std::int64_t, std::int64_t>> calls_ =
      std::make_shared<std::map<std::int64_t, std::int64_t>>();
};

inline PhasePeaks phase_at(Phase phase, std::int64_t bytes) { return {phase, MemoryPeaks::all(Bytes{bytes})}; }

}  // namespace maxbatch::test
