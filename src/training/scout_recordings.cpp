#include "scout_recordings.hpp"

#include "scout_choice.hpp"
#include <maxbatch/device/trace_recorder.hpp>
#include <maxbatch/simulation/allocator_settings.hpp>

#include <algorithm>
#include <exception>
#include <utility>

namespace maxbatch::detail {
namespace {

/// 10 MB; three steps of a Swin-L are 22,000 events.
constexpr std::size_t kRoom = std::size_t{1} << 18;

PredictionTarget target_of(DeviceDescription const& device, Bytes budget) {
  PredictionTarget target;
  target.limit = budget;
  target.device.total_memory = device.total;
  target.settings = parse_allocator_settings(device.allocator_settings);
  return target;
}

/// `then` goes on where `first` ended.
AllocationTrace joined(AllocationTrace first, AllocationTrace const& then) {
  auto const before = first.events.size();
  first.events.reserve(before + then.events.size());
  for (auto event : then.events) {
    event.stream = first.stream_index(then.streams[event.stream]);
    event.pool = first.pool_index(then.pools[event.pool]);
    event.label = 0;
    first.events.push_back(event);
  }
  // The steps alone: where the first one begins, the set-up is over.
  first.marks.clear();
  for (auto mark : then.marks) {
    if (mark.kind != TraceMark::Kind::step_begin && mark.kind != TraceMark::Kind::step_end) { continue; }
    mark.event += before;
    first.marks.push_back(std::move(mark));
  }
  return first;
}

bool has_lost_events(AllocationTrace const& trace) { return trace.last_statistic("lost_events").has_value(); }

}  // namespace

ScoutRecordings::ScoutRecordings(DeviceDescription const& device, Bytes budget, SearchOptions const& search,
                                 PeakPredictor& otherwise)
    : index_(device.torch_device.index()),
      predictor_(target_of(device, budget), &otherwise,
                 scaling_on_same_card(device.multiprocessors, device.max_threads_per_multiprocessor),
                 search_prediction_options()),
      sizes_(sizes_to_record(search)) {
  if (sizes_.size() < 2) { sizes_.clear(); }
  predictor_.want_recordings_of(sizes_);
}

std::optional<std::int64_t> ScoutRecordings::warm_up_size() const {
  return sizes_.empty() ? std::nullopt : std::optional(sizes_.front());
}

void ScoutRecordings::record_setup(std::function<void()> const& work) { setup_ = record(work); }

void ScoutRecordings::record_trial(std::int64_t size, std::function<Verdict()> const& work) {
  auto const place = std::find(sizes_.begin(), sizes_.end(), size);
  if (place == sizes_.end()) {
    work();
    return;
  }
  sizes_.erase(place);
  auto verdict = Verdict::failed;
  auto const trace = record([&] { verdict = work(); });
  if (verdict != Verdict::fits) {
    sizes_.clear();  // pressure at so small a size: not what a larger one would do
    predictor_.want_recordings_of({});
  } else if (trace) {
    // Without a setup of its own the step's is in the trial, or the caller's state was there before.
    predictor_.add_recording(size, setup_ ? joined(*setup_, *trace) : *trace);
  }
}

std::optional<std::int64_t> ScoutRecordings::predicted_size() const {
  auto const& prediction = predictor_.prediction();
  return prediction ? prediction->elastic_largest_batch_size : std::nullopt;
}

std::optional<AllocationTrace> ScoutRecordings::record(std::function<void()> const& work) {
  std::optional<TraceRecorder> recorder;
  try {
    recorder.emplace(index_, kRoom);
  } catch (std::exception const& error) { problem_ = error.what(); }
  work();
  if (!recorder) { return std::nullopt; }
  auto trace = recorder->finish();
  if (has_lost_events(trace)) {
    problem_ = "the step makes more than " + std::to_string(kRoom) + " allocator events";
    return std::nullopt;
  }
  return trace;
}

}  // namespace maxbatch::detail
