#include "budget_guard.hpp"
#include "state_keeper.hpp"
#include "trial_runner.hpp"
#include <maxbatch/device/budgeted_cpu_device.hpp>
#include <maxbatch/search/errors.hpp>
#include <maxbatch/training/max_batch_finder.hpp>
#include <maxbatch/training/step_measurement.hpp>

#include <algorithm>
#include <ostream>

namespace maxbatch {
namespace {

/// Passes everything on, and looks after each step at what is held: the trial runner synchronises once a step.
class HeldBytesWatch : public MemoryDevice {
 public:
  explicit HeldBytesWatch(MemoryDevice& watched) : watched_(watched) {}

  DeviceDescription describe() const override { return watched_.describe(); }
  c10::Device torch_device() const override { return watched_.torch_device(); }
  void set_budget(std::optional<Bytes> budget) override { watched_.set_budget(budget); }
  void set_resident(Bytes already_allocated) override { watched_.set_resident(already_allocated); }
  void warm_up() override { watched_.warm_up(); }
  std::unique_ptr<TrialWindow> open_trial() override {
    auto window = watched_.open_trial();
    window_ = window.get();
    return window;
  }
  void synchronize() override {
    watched_.synchronize();
    held_.push_back(window_->still_allocated());
  }
  void release_cached_memory() noexcept override { watched_.release_cached_memory(); }
  bool is_alive() noexcept override { return watched_.is_alive(); }

  std::vector<Bytes> const& held_after_step() const { return held_; }

 private:
  MemoryDevice& watched_;
  TrialWindow const* window_ = nullptr;
  std::vector<Bytes> held_;
};

/// A whole list as one thing to preserve.
struct StateList {
  PreservedState const& state;
};

class StateListGuard : public StateGuard {
 public:
  explicit StateListGuard(PreservedState const& state) : guards_(state.make_guards()) {}
  void restore_structure() override {
    for (auto const& guard : guards_) { guard->restore_structure(); }
  }
  void restore_values() override {
    for (auto const& guard : guards_) { guard->restore_values(); }
  }
  std::vector<NamedTensor> resident_tensors() const override {
    std::vector<NamedTensor> all;
    for (auto const& guard : guards_) {
      auto const tensors = guard->resident_tensors();
      all.insert(all.end(), tensors.begin(), tensors.end());
    }
    return all;
  }

 private:
  std::vector<std::unique_ptr<StateGuard>> guards_;
};

std::unique_ptr<StateGuard> make_state_guard(StateList const& list) {
  return std::make_unique<StateListGuard>(list.state);
}

}  // namespace

Bytes StepMeasurement::growth_per_step() const {
  auto const count = held_after_step.size();
  if (count < 3) { return Bytes{0}; }
  // From the second step on, and in the last one: a cache that fills up and stops is no leak.
  auto const last = headroom(held_after_step[count - 1], held_after_step[count - 2]);
  return std::is_sorted(held_after_step.begin() + 1, held_after_step.end()) ? last : Bytes{0};
}

std::string StepMeasurement::peaks_by_phase() const {
  auto text = "peak " + to_string(outcome.peaks.reserved);
  auto separator = ": ";
  for (auto const& [phase, peaks] : outcome.phases) {
    text += separator + std::string(to_string(phase)) + " " + to_string(peaks.reserved);
    separator = ", ";
  }
  return text;
}

std::string StepMeasurement::failure() const {
  if (is_fit(outcome.verdict)) { return ""; }
  auto const in_step = " in step " + std::to_string(outcome.steps + 1);
  if (!is_memory_failure(outcome.verdict)) { return "it failed, not for memory," + in_step + ": " + outcome.reason; }
  if (!outcome.failed_request) { return outcome.reason + in_step; }
  auto const& failed = *outcome.failed_request;
  auto text = std::string(to_string(failed.phase)) + " asked for " + to_string(failed.requested);
  if (failed.short_by_at_least) { text += ", at least " + to_string(*failed.short_by_at_least) + " short,"; }
  return text + in_step;
}

StepMeasurement const& StepAt::measure(std::optional<Bytes> budget) const {
  detail::require_at_least_one(batch_size_, "batch_size");
  detail::require_at_least_one(steps_, "steps");
  auto const key = budget ? budget->count : 0;
  auto const known = measured_->find(key);
  if (known != measured_->end()) { return known->second; }

  auto const device = budgeted_cpu_device(budget);
  device->warm_up();
  detail::StateKeeper keeper;
  keeper.keep(state_.make_guards());
  detail::BudgetGuard const budget_guard(*device, budget);
  device->set_resident(resident_bytes(keeper.resident_tensors(), device->torch_device()));

  detail::TrialPlan plan;
  plan.steps = steps_;
  HeldBytesWatch watch(*device);
  auto const make_step = [&] { return own_step_ ? own_step_ : make_step_(device->torch_device()); };

  StepMeasurement measurement;
  measurement.batch_size = batch_size_;
  measurement.budget = budget;
  try {
    auto const run = detail::run_trial(watch, plan, batch_size_, make_step, [&] { keeper.restore_structure(); });
    measurement.outcome = run.outcome;
    measurement.left_behind = own_step_ ? Bytes{0} : run.still_allocated;
  } catch (StepNeverRan const& error) {
    measurement.outcome.verdict = Verdict::failed;
    measurement.outcome.steps = 0;
    measurement.outcome.reason = error.what();
  }
  measurement.held_after_step = watch.held_after_step();
  keeper.put_back();
  return measured_->emplace(key, std::move(measurement)).first->second;
}

std::optional<std::int64_t> StepAt::largest_that_fits(Bytes budget) const {
  if (batch_size_ <= 1) { return std::nullopt; }
  FinderOptions options;
  options.steps = std::max<std::int64_t>(steps_, 2);
  options.search.maximum = batch_size_ - 1;
  options.search.max_trials = 20;  // this is a hint in a message, not a search that someone asked for
  auto finder = MaxBatchFinder(budgeted_cpu_device(budget), options);
  if (!own_step_) { return finder.find(make_step_).batch_size(); }
  if (state_.empty()) { return std::nullopt; }  // would train the caller's model without being asked to
  StateList const list{state_};
  finder.preserve(list);
  return finder.find(own_step_).batch_size();
}

std::ostream& operator<<(std::ostream& stream, StepAt const& step) {
  return stream << "a training step at batch size " << step.batch_size();
}

}  // namespace maxbatch
