#pragma once

#include "leak_watch.hpp"
#include "scout_recordings.hpp"
#include "state_keeper.hpp"
#include "trial_plan.hpp"
#include "trial_runner.hpp"
#include <maxbatch/device/memory_device.hpp>
#include <maxbatch/search/batch_size_search.hpp>
#include <maxbatch/search/peak_predictor.hpp>
#include <maxbatch/search/search_observer.hpp>
#include <maxbatch/search/search_options.hpp>
#include <maxbatch/training/finder_options.hpp>
#include <maxbatch/training/finder_result.hpp>
#include <maxbatch/training/model_factory.hpp>
#include <maxbatch/training/preserved_state.hpp>

#include <cstdint>
#include <functional>
#include <optional>

namespace maxbatch::detail {

/// One search on one device: state kept and put back, the budget set and given back, each size run as a trial.
class SearchSession {
 public:
  /// One of the three is set.
  struct Source {
    Step own_step;
    std::function<Step(c10::Device)> make_step;             // called in each trial
    std::function<PreparedStep(c10::Device)> prepare_step;  // called once, before the first trial
  };

  SearchSession(MemoryDevice& device, FinderOptions const& options, TrialPlan plan, PreservedState const& preserved,
                Source source);

  using Driver = std::function<SearchResult(Probe const&, SearchOptions const&, PeakPredictor*, SearchObserver*)>;

  /// `driver` none: the built-in search.
  FinderResult run(Driver const& driver, SearchOptions search, PeakPredictor* predictor, SearchObserver* observer,
                   double exponent);

 private:
  TrialOutcome probe(std::int64_t size, std::int64_t smallest);
  TrialRun run_one(std::int64_t size, TrialPlan const& plan);
  std::optional<TrialOutcome> prepare();
  TrialRun build();
  void begin_recording(DeviceDescription const& described, Bytes budget, SearchOptions const& search,
                       PeakPredictor& lines);
  void run_warm_up(std::int64_t smallest);
  Bytes usable_budget() const;
  std::vector<std::string> warnings(SearchResult const& result) const;

  MemoryDevice& device_;
  FinderOptions const& options_;
  TrialPlan plan_;
  PreservedState const& preserved_;
  Source source_;
  std::optional<PreparedStep> prepared_;
  std::optional<StateKeeper> keeper_;
  std::optional<ScoutRecordings> scouts_;  // none: no replay
  LeakWatch* leaks_ = nullptr;
  std::int64_t swallowed_ = 0;
};

}  // namespace maxbatch::detail
