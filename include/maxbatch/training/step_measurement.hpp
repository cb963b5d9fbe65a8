#pragma once

#include <maxbatch/bytes.hpp>
#include <maxbatch/search/trial_outcome.hpp>
#include <maxbatch/training/model_factory.hpp>
#include <maxbatch/training/preserved_state.hpp>
#include <maxbatch/training/step.hpp>

#include <cstdint>
#include <functional>
#include <iosfwd>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace maxbatch {

/// What some steps at one batch size did, on the CPU under a budget.
struct StepMeasurement {
  std::int64_t batch_size = 0;
  std::optional<Bytes> budget;  ///< none: the machine's memory
  TrialOutcome outcome;
  std::vector<Bytes>
      held_after_step;  ///< allocated since the first step began and alive after each; the model too, where
                        ///< a factory built it
  Bytes left_behind;    ///< still alive when all that a factory made is gone; zero for a step of the caller's

  /// What each step after the second adds for good; zero: the last one added nothing. (The first two make gradients and
  /// the optimizer's state.)
  Bytes growth_per_step() const;
  /// "peak 41.5 MiB: setup 3 MiB, forward 40 MiB, backward 41.5 MiB"
  std::string peaks_by_phase() const;
  /// "backward asked for 8 MiB, at least 2.5 MiB short, in step 1"; or why else the step failed.
  std::string failure() const;
};

/// A training step at one batch size, to be measured: what the matchers of maxbatch/gtest.hpp look at.
///
/// Takes what `MaxBatchFinder::find` takes: a step, a factory of steps, or a model. A factory's model and optimizer are
/// built, counted and destroyed by each measurement. A step works on state of the caller's: say `preserve(…)` for it to be
/// counted and put back; without that the steps run all the same, and train it.
class StepAt {
 public:
  template <typename StepOrFactory>
  StepAt(StepOrFactory&& callable, std::int64_t batch_size) : batch_size_(batch_size) {
    using Plain = std::remove_reference_t<StepOrFactory>;
    if constexpr (std::is_same_v<std::remove_cv_t<Plain>, ModelFactory>) {
      make_step_ = [model = callable](c10::Device device) { return model.make(device, Recipe{}).step; };
    } else if constexpr (detail::makes_step<Plain>()) {
      using Made = std::decay_t<std::invoke_result_t<Plain&, c10::Device>>;
      auto held = detail::shared_callable(std::forward<StepOrFactory>(callable));
      make_step_ = [held](c10::Device device) {
        if constexpr (std::is_same_v<Made, PreparedStep>) {
          return (*held)(device).step;
        } else {
          return detail::make_step((*held)(device));
        }
      };
    } else {
      static_assert(
          detail::is_step<Plain>,
          "maxbatch: give a step (a callable that takes `maxbatch::Trial&` or `std::int64_t`) or a factory (a "
          "callable that takes `torch::Device` and returns a step)");
      own_step_ = detail::make_step(std::forward<StepOrFactory>(callable));
    }
  }

  /// As MaxBatchFinder::preserve.
  template <typename State>
  StepAt& preserve(State&& state) {
    state_.preserve(std::forward<State>(state));
    return *this;
  }
  /// Complete steps that a measurement runs; 3 unless said otherwise.
  StepAt& steps(std::int64_t count) {
    steps_ = count;
    return *this;
  }
  std::int64_t batch_size() const { return batch_size_; }

  /// Runs the steps under `budget` (none: the machine's memory). Runs them once per budget, however often it is asked.
  /// An exception of the step, memory or not, is in the outcome.  Throws: InvalidArgument for a count below 1.
  StepMeasurement const& measure(std::optional<Bytes> budget = std::nullopt) const;

  /// The largest batch below this one that fits; none: not even 1 does, or the search was not worth its trials.
  std::optional<std::int64_t> largest_that_fits(Bytes budget) const;

 private:
  std::int64_t batch_size_;
  std::int64_t steps_ = 3;
  Step own_step_;
  std::function<Step(c10::Device)> make_step_;
  PreservedState state_;
  std::shared_ptr<std::map<std::int64_t, StepMeasurement>> measured_ =
      std::make_shared<std::map<std::int64_t, StepMeasurement>>();
};

std::ostream& operator<<(std::ostream& stream, StepAt const& step);

}  // namespace maxbatch
