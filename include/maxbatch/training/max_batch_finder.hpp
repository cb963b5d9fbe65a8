#pragma once

#include <maxbatch/device/memory_device.hpp>
#include <maxbatch/search/batch_size_search.hpp>
#include <maxbatch/search/peak_predictor.hpp>
#include <maxbatch/search/search_observer.hpp>
#include <maxbatch/training/finder_options.hpp>
#include <maxbatch/training/finder_result.hpp>
#include <maxbatch/training/input_size.hpp>
#include <maxbatch/training/model_factory.hpp>
#include <maxbatch/training/preserved_state.hpp>
#include <maxbatch/training/step.hpp>

#include <functional>
#include <memory>
#include <type_traits>
#include <utility>

namespace maxbatch {
namespace detail {

/// A ModelFactory that is not const would otherwise be taken for a callable.
template <typename Callable>
using IfNotModel = std::enable_if_t<!std::is_same_v<std::decay_t<Callable>, ModelFactory>>;

}  // namespace detail

/// Finds the largest batch (or image) that a training step can run on a device, with proof.
///
/// A step is a callable that takes `Trial&` or `std::int64_t`; a factory takes the device and returns a step (called for
/// each trial) or a `PreparedStep` (called once). A step that works on state of the caller needs `preserve(…)` for that
/// state, or `preserve_nothing()`: forgetting it would train the caller's model.
///
/// "Does not fit" is a value. An exception that is not about memory passes through untouched at the smallest allowed size;
/// at larger sizes it is the stated reason why the answer is not larger.
///
/// Not restored: what a learning-rate scheduler keeps protected, and the allocator's peak statistics.
/// Threads: one finder per device at a time; the step runs on the calling thread.  Synchronises: after each step.
class MaxBatchFinder {
 public:
  /// Throws: InvalidArgument for no device, or options that cannot be met (they are checked again by `find`).
  explicit MaxBatchFinder(std::shared_ptr<MemoryDevice> device, FinderOptions options = {});

  c10::Device device() const { return device_->torch_device(); }
  FinderOptions& options() { return options_; }

  /// Modules, optimizers, tensors, generators, and anything with an ADL `make_state_guard`; see state_guard.hpp.
  template <typename State>
  MaxBatchFinder& preserve(State&& state) {
    preserved_.preserve(std::forward<State>(state));
    return *this;
  }
  /// The step works on nothing that has to be put back.
  MaxBatchFinder& preserve_nothing() {
    preserve_nothing_ = true;
    return *this;
  }

  /// Told of every trial while it happens.
  MaxBatchFinder& observe(std::shared_ptr<SearchObserver> observer) {
    observer_ = std::move(observer);
    return *this;
  }
  /// In place of the built-in ones: a replay of the scouts on CUDA devices (FinderOptions::replay_scouts), else a line per
  /// phase.
  MaxBatchFinder& predict_with(std::shared_ptr<PeakPredictor> predictor) {
    predictor_ = std::move(predictor);
    return *this;
  }

  /// In place of `search_largest_batch_size`: who decides which sizes run, such as a process that asks this one. Called
  /// once, with the probe and what the built-in search would have been given.
  using SearchDriver = std::function<SearchResult(Probe const&, SearchOptions const&, PeakPredictor*, SearchObserver*)>;
  MaxBatchFinder& drive_with(SearchDriver driver) {
    driver_ = std::move(driver);
    return *this;
  }

  /// Throws: InvalidArgument; std::logic_error when nothing was said of preserving, or captured state lives on another
  /// device; StepNeverRan when a step did nothing on the device; whatever the step throws that is not about memory, at the
  /// smallest size. The caller's state is put back on every way out.
  template <typename StepOrFactory, typename = detail::IfNotModel<StepOrFactory>>
  FinderResult find(StepOrFactory&& callable) {
    return find_largest(source_of(std::forward<StepOrFactory>(callable)));
  }
  FinderResult find(ModelFactory const& model, Recipe const& recipe = {});

  /// The largest image at a fixed batch size; the step reads `trial.image_size()`.
  template <typename StepOrFactory, typename = detail::IfNotModel<StepOrFactory>>
  InputSizeResult find_input_size(StepOrFactory&& callable, InputSizeOptions const& options) {
    return find_largest_image(source_of(std::forward<StepOrFactory>(callable)), options);
  }
  InputSizeResult find_input_size(ModelFactory const& model, Recipe const& recipe, InputSizeOptions const& options);

 private:
  /// Where steps come from: the caller's own, one made per trial, or one prepared for all trials.
  struct StepSource {
    Step own_step;
    std::function<Step(c10::Device)> make_step;
    std::function<PreparedStep(c10::Device)> prepare_step;
    std::optional<ImageSize> image_size;
    bool reads_trial = true;  // false: it takes a batch size only, so it cannot know its mode or image size
  };

  template <typename StepOrFactory>
  static StepSource source_of(StepOrFactory&& callable) {
    using Plain = std::remove_reference_t<StepOrFactory>;
    StepSource source;
    if constexpr (detail::makes_step<Plain>()) {
      using Made = std::decay_t<std::invoke_result_t<Plain&, c10::Device>>;
      auto held = detail::shared_callable(std::forward<StepOrFactory>(callable));
      if constexpr (std::is_same_v<Made, PreparedStep>) {
        source.prepare_step = [held](c10::Device device) { return (*held)(device); };
      } else {
        source.make_step = [held](c10::Device device) { return detail::make_step((*held)(device)); };
        source.reads_trial = detail::takes_trial<Made>;
      }
    } else {
      static_assert(detail::is_step<Plain>,
                    "maxbatch: give a step (a callable that takes `maxbatch::Trial&` or `std::int64_t`, not a narrower "
                    "integer) or a factory (a callable that takes `torch::Device` and returns a step)");
      source.own_step = detail::make_step(std::forward<StepOrFactory>(callable));
      source.reads_trial = detail::takes_trial<Plain>;
    }
    return source;
  }

  static StepSource source_of_model(ModelFactory const& model, Recipe const& recipe);
  FinderResult find_largest(StepSource const& source);
  InputSizeResult find_largest_image(StepSource const& source, InputSizeOptions const& options);

  std::shared_ptr<MemoryDevice> device_;
  FinderOptions options_;
  PreservedState preserved_;
  bool preserve_nothing_ = false;
  std::shared_ptr<SearchObserver> observer_;
  std::shared_ptr<PeakPredictor> predictor_;
  SearchDriver driver_;  // none: search_largest_batch_size
};

}  // namespace maxbatch
