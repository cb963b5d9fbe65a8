#pragma once

#include <maxbatch/device/memory_device.hpp>
#include <maxbatch/search/trial_outcome.hpp>
#include <maxbatch/training/model_factory.hpp>
#include <maxbatch/training/recipe.hpp>

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

namespace maxbatch {

/// How speed is measured. A round is some steps, then one wait for the device; a time is a round's, over its steps.
struct SpeedOptions {
  /// Each at least 1. Empty: 1, 2, 4, … until memory ends, or until two doublings in a row brought less than 2 %.
  std::vector<std::int64_t> batch_sizes;
  /// At least 1. Where no sizes are given: those below this one as said, and then this one.
  std::optional<std::int64_t> largest;
  std::int64_t rounds = 5;     ///< at least 1; their median is the answer
  double round_seconds = 0.5;  ///< as many steps as take about this long make a round; above 0
  std::int64_t warm_up = 3;    ///< steps that are not timed, at least 1: kernels are chosen, optimizer state is made
};

/// What the rounds of one kind of step took, each per step.
struct StepTimes {
  std::vector<double> seconds;  ///< a number a round
  std::int64_t steps_per_round = 0;

  double median() const;
  double fastest() const;
  double slowest() const;
};

struct SpeedAtSize {
  std::int64_t batch_size = 0;
  TrialOutcome training;                     ///< its verdict and peaks
  TrialOutcome inference;                    ///< likewise
  std::optional<StepTimes> training_times;   ///< none: the step did not pass
  std::optional<StepTimes> inference_times;  ///< likewise

  /// Images (samples) a second of the median step; accumulated micro-batches count. None: it did not pass.
  std::optional<double> training_rate() const;
  std::optional<double> inference_rate() const;
  std::int64_t samples_per_training_step = 0;
};

struct SpeedResult {
  DeviceDescription device;
  std::vector<SpeedAtSize> sizes;  ///< in rising order
  /// Of inference on one sample, each followed by a wait for the device.
  std::optional<StepTimes> latency;
  /// Null: this size was not measured.
  SpeedAtSize const* at(std::int64_t batch_size) const;
  /// The smallest size within 5 % of the best speed of all that were measured.
  std::optional<std::int64_t> training_knee() const;
  std::optional<std::int64_t> inference_knee() const;
};

/// Times training steps and inference (the step's evaluation, which has a loss but no gradients) of a model at each size.
/// Inputs are drawn on the device inside each step, and count. A size that runs out of memory has a verdict and no times,
/// and larger ones are not tried. The device's budget holds.
/// `told` (may be null) is called after each size.
/// Throws: InvalidArgument for options that make no measurement and for a dry card, where there is no time; whatever a
/// step throws that is not about memory.  Synchronises: after each round.
SpeedResult measure_speed(MemoryDevice& device, ModelFactory const& model, Recipe const& recipe,
                          SpeedOptions const& options, std::function<void(SpeedAtSize const&)> const& told = nullptr);

}  // namespace maxbatch
