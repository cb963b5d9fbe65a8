#include "state_keeper.hpp"
#include "trial_plan.hpp"
#include "trial_runner.hpp"
#include <maxbatch/device/trace_recorder.hpp>
#include <maxbatch/search/errors.hpp>
#include <maxbatch/training/trace_recording.hpp>

#include <utility>

namespace maxbatch {

RecordedSteps record_steps(MemoryDevice& device, ModelFactory const& model, Recipe const& recipe,
                           std::int64_t batch_size, std::int64_t steps) {
  detail::require_at_least_one(batch_size, "batch_size");
  detail::require_at_least_one(steps, "steps");
  auto const where = device.torch_device();
  if (!where.is_cuda()) {
    throw InvalidArgument("traces of the allocator are recorded on CUDA devices, and this is " + where.str() +
                          ": take --device cuda:0, on a dry card if there is no other");
  }
  detail::StateKeeper keeper;
  device.warm_up();
  detail::TrialPlan plan;
  plan.steps = steps;
  plan.image_size = recipe.image_size ? recipe.image_size : model.image_size;

  device.release_cached_memory();
  TraceRecorder recorder(where.index());
  auto run = detail::run_trial(
      device, plan, batch_size, [&] { return model.make(where, recipe).step; }, [&] { keeper.restore_structure(); });
  RecordedSteps recorded;
  recorded.outcome = std::move(run.outcome);
  recorded.lost_events = recorder.lost_events();
  recorded.trace = recorder.finish();
  return recorded;
}

}  // namespace maxbatch
