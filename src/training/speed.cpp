#include "state_keeper.hpp"
#include "trial_plan.hpp"
#include "trial_runner.hpp"
#include <maxbatch/search/errors.hpp>
#include <maxbatch/training/speed.hpp>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <string>
#include <utility>

namespace maxbatch {
namespace {

using Clock = std::chrono::steady_clock;

/// How much slower than the best a size may be and still be as good.
constexpr double kKneeShare = 0.95;
/// What a doubling has to bring for the next one to be tried.
constexpr double kLeastGain = 1.02;
constexpr std::int64_t kMostStepsPerRound = 1000;

double seconds_since(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }

void check(SpeedOptions const& options, MemoryDevice& device) {
  auto const refuse = [](std::string const& what) { throw InvalidArgument(what); };
  if (device.describe().evidence == DeviceEvidence::dry) {
    refuse(device.describe().name +
           " is a dry card, where kernels do nothing and take no time: measure speed on a card");
  }
  for (auto const size : options.batch_sizes) {
    if (size < 1) { refuse("a batch of " + std::to_string(size) + " has no speed: give 1 or more"); }
  }
  if (options.largest && *options.largest < 1) {
    refuse("a batch of " + std::to_string(*options.largest) + " has no speed: give 1 or more");
  }
  if (options.rounds < 1) { refuse("rounds is " + std::to_string(options.rounds) + "; it must be 1 or more"); }
  if (options.warm_up < 1) { refuse("warm_up is " + std::to_string(options.warm_up) + "; it must be 1 or more"); }
  if (!(options.round_seconds > 0)) {
    refuse("round_seconds is " + std::to_string(options.round_seconds) + "; it must be above 0");
  }
}

class Bench {
 public:
  Bench(MemoryDevice& device, ModelFactory const& model, Recipe const& recipe, SpeedOptions const& options)
      : device_(device), model_(model), recipe_(recipe), options_(options) {
    device_.warm_up();
  }

  struct Measured {
    TrialOutcome outcome;
    std::optional<StepTimes> times;
  };

  /// A trial whose steps are rounds: it has the budget, the peaks and the verdict of every other.
  Measured measure(std::int64_t batch_size, StepMode mode, bool one_step_per_round) {
    detail::TrialPlan plan;
    plan.steps = options_.warm_up + options_.rounds;
    plan.order = {mode};
    plan.image_size = recipe_.image_size ? recipe_.image_size : model_.image_size;
    auto const times = std::make_shared<StepTimes>();
    auto const make_step = [&]() -> Step {
      auto const step = model_.make(device_.torch_device(), recipe_).step;
      auto const calls = std::make_shared<std::int64_t>(0);
      return [=](Trial& trial) {
        auto const begin = Clock::now();
        if (++*calls <= options_.warm_up) {
          step(trial);
          device_.synchronize();
          times->steps_per_round = one_step_per_round ? 1 : steps_in_a_round(seconds_since(begin));
          return;
        }
        if (static_cast<std::int64_t>(times->seconds.size()) >= options_.rounds) {
          step(trial);  // under pressure a trial goes on until the allocator's layout repeats
          return;
        }
        for (std::int64_t i = 0; i < times->steps_per_round; ++i) { step(trial); }
        device_.synchronize();
        times->seconds.push_back(seconds_since(begin) / static_cast<double>(times->steps_per_round));
      };
    };
    auto run = detail::run_trial(device_, plan, batch_size, make_step, [this] { keeper_.restore_structure(); });
    if (run.foreign) { std::rethrow_exception(run.foreign); }
    Measured measured;
    if (is_fit(run.outcome.verdict)) { measured.times = std::move(*times); }
    measured.outcome = std::move(run.outcome);
    return measured;
  }

  SpeedAtSize at(std::int64_t batch_size) {
    SpeedAtSize speed;
    speed.batch_size = batch_size;
    speed.samples_per_training_step = batch_size * recipe_.accumulation;
    auto training = measure(batch_size, StepMode::train, false);
    auto inference = measure(batch_size, StepMode::evaluate, false);
    speed.training = std::move(training.outcome);
    speed.training_times = std::move(training.times);
    speed.inference = std::move(inference.outcome);
    speed.inference_times = std::move(inference.times);
    return speed;
  }

 private:
  std::int64_t steps_in_a_round(double seconds_of_one) const {
    auto const steps = options_.round_seconds / std::max(seconds_of_one, 1e-9);
    return std::clamp(static_cast<std::int64_t>(std::llround(steps)), std::int64_t{1}, kMostStepsPerRound);
  }

  MemoryDevice& device_;
  ModelFactory const& model_;
  Recipe const& recipe_;
  SpeedOptions const& options_;
  detail::StateKeeper keeper_;
};

template <typename Rate>
std::optional<std::int64_t> knee(std::vector<SpeedAtSize> const& sizes, Rate const& rate) {
  double best = 0;
  for (auto const& size : sizes) { best = std::max(best, rate(size).value_or(0)); }
  for (auto const& size : sizes) {
    if (rate(size).value_or(0) >= kKneeShare * best && best > 0) { return size.batch_size; }
  }
  return std::nullopt;
}

/// Whether the last two sizes, each the double of the one before, brought next to nothing to either kind of step.
bool levelled_off(std::vector<SpeedAtSize> const& sizes) {
  if (sizes.size() < 3) { return false; }
  auto const& before = sizes[sizes.size() - 3];
  auto const gained = [&](auto const& rate) {
    auto const later = std::max(rate(sizes[sizes.size() - 2]).value_or(0), rate(sizes.back()).value_or(0));
    return later > kLeastGain * rate(before).value_or(0);
  };
  return !gained([](SpeedAtSize const& size) { return size.training_rate(); }) &&
         !gained([](SpeedAtSize const& size) { return size.inference_rate(); });
}

}  // namespace

double StepTimes::median() const {
  auto sorted = seconds;
  std::sort(sorted.begin(), sorted.end());
  auto const middle = sorted.size() / 2;
  return sorted.size() % 2 == 1 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2;
}

double StepTimes::fastest() const { return *std::min_element(seconds.begin(), seconds.end()); }
double StepTimes::slowest() const { return *std::max_element(seconds.begin(), seconds.end()); }

std::optional<double> SpeedAtSize::training_rate() const {
  if (!training_times) { return std::nullopt; }
  return static_cast<double>(samples_per_training_step) / training_times->median();
}

std::optional<double> SpeedAtSize::inference_rate() const {
  if (!inference_times) { return std::nullopt; }
  return static_cast<double>(batch_size) / inference_times->median();
}

SpeedAtSize const* SpeedResult::at(std::int64_t batch_size) const {
  auto const found =
      std::find_if(sizes.begin(), sizes.end(), [&](SpeedAtSize const& size) { return size.batch_size == batch_size; });
  return found == sizes.end() ? nullptr : &*found;
}

std::optional<std::int64_t> SpeedResult::training_knee() const {
  return knee(sizes, [](SpeedAtSize const& size) { return size.training_rate(); });
}

std::optional<std::int64_t> SpeedResult::inference_knee() const {
  return knee(sizes, [](SpeedAtSize const& size) { return size.inference_rate(); });
}

SpeedResult measure_speed(MemoryDevice& device, ModelFactory const& model, Recipe const& recipe,
                          SpeedOptions const& options, std::function<void(SpeedAtSize const&)> const& told) {
  check(options, device);
  auto wanted = options.batch_sizes;
  std::sort(wanted.begin(), wanted.end());
  wanted.erase(std::unique(wanted.begin(), wanted.end()), wanted.end());

  Bench bench(device, model, recipe, options);
  SpeedResult result;
  result.latency = bench.measure(1, StepMode::evaluate, /*one_step_per_round=*/true).times;
  auto const measure = [&](std::int64_t size) -> SpeedAtSize const& {
    result.sizes.push_back(bench.at(size));
    if (told) { told(result.sizes.back()); }
    return result.sizes.back();
  };
  if (wanted.empty()) {
    for (std::int64_t size = 1; !options.largest || size < *options.largest; size *= 2) {
      if (!measure(size).training_times || levelled_off(result.sizes)) { break; }
    }
    if (options.largest) { measure(*options.largest); }
  }
  for (auto const size : wanted) {
    auto const& measured = measure(size);
    if (!measured.training_times && !measured.inference_times) { break; }
  }
  result.device = device.describe();
  return result;
}

}  // namespace maxbatch
