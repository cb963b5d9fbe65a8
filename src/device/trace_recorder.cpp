#include "allocator_hook.hpp"
#include "allocator_snapshot.hpp"
#include "memory_fraction_guard.hpp"
#include <maxbatch/device/cuda_device.hpp>
#include <maxbatch/device/trace_recorder.hpp>
#include <maxbatch/search/errors.hpp>

#include <c10/cuda/CUDACachingAllocator.h>

#include <algorithm>
#include <atomic>
#include <mutex>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace maxbatch {
namespace {

using detail::AllocatorEvent;
using detail::AllocatorHook;
using Kind = TraceMark::Kind;

constexpr auto kAggregate = static_cast<std::size_t>(c10::CachingAllocator::StatType::AGGREGATE);

std::vector<TraceStatistic> statistics_of(std::int64_t allocated_peak, std::int64_t reserved_peak,
                                          std::int64_t reserved) {
  return {{"allocated_peak", allocated_peak}, {"reserved_peak", reserved_peak}, {"reserved", reserved}};
}

TraceWorld world_of(DeviceEvidence evidence) {
  return evidence == DeviceEvidence::dry ? TraceWorld::dry : TraceWorld::measured;
}

}  // namespace

class TraceRecorder::Buffer final : public detail::AllocatorListener {
 public:
  Buffer(c10::DeviceIndex index, std::size_t capacity) : index_(index), events_(capacity) {
    auto const description = cuda_device(index)->describe();
    trace_.device_index = index;
    trace_.device_name = description.name;
    trace_.total_memory = description.total;
    trace_.allocator_settings = description.allocator_settings;
    trace_.world = world_of(description.evidence);
    if (!AllocatorHook::of_process().attach(index, AllocatorHook::Place::recorder, *this)) {
      throw std::logic_error("cuda:" + std::to_string(index) +
                             " is being recorded already: finish that recording first, one runs at a time.");
    }
    try {
      trace_.initial_segments = detail::allocator_segments(index, trace_);
    } catch (...) {
      stop();
      throw;
    }
  }
  ~Buffer() override { stop(); }
  Buffer(Buffer const&) = delete;
  Buffer& operator=(Buffer const&) = delete;

  void on_event(AllocatorEvent const& event) noexcept override {
    auto const number = written_.load(std::memory_order_relaxed);
    if (number == events_.size()) {
      lost_.fetch_add(1, std::memory_order_relaxed);
      return;
    }
    events_[number] = event;
    written_.store(number + 1, std::memory_order_release);
  }
  void on_refusal(detail::SegmentRefusal const& /*refusal*/) noexcept override {}
  void on_phase(Phase before, Phase after) noexcept override {
    if (before == after) { return; }
    if (before != Phase::other) { mark(Kind::phase_end, to_string(before)); }
    if (after != Phase::other) { mark(Kind::phase_begin, to_string(after)); }
  }
  void on_step_begin(std::int64_t number) noexcept override {
    trace_.limit = detail::allocator_limit(index_);  // the trial's budget, which ends before the recording
    mark(Kind::step_begin, std::to_string(number));
  }
  void on_step_end(std::int64_t number, MemoryPeaks const& peaks, Bytes reserved) noexcept override {
    mark(Kind::step_end, std::to_string(number));
    mark(Kind::statistics, "step" + std::to_string(number),
         statistics_of(peaks.allocated.count, peaks.reserved.count, reserved.count));
  }

  void mark(Kind kind, std::string_view label, std::vector<TraceStatistic> statistics = {}) {
    std::lock_guard<std::mutex> const lock(marks_mutex_);
    TraceMark mark;
    mark.event = written_.load(std::memory_order_acquire);
    mark.kind = kind;
    mark.label = label;
    mark.statistics = std::move(statistics);
    trace_.marks.push_back(std::move(mark));
  }

  c10::DeviceIndex index() const { return index_; }
  std::uint64_t written() const { return written_.load(std::memory_order_acquire); }
  std::uint64_t lost() const { return lost_.load(std::memory_order_relaxed); }

  AllocationTrace finish() {
    if (!trace_.limit) { trace_.limit = detail::allocator_limit(index_); }
    stop();
    auto const end = events_.begin() + static_cast<std::ptrdiff_t>(written());
    // What was written while the snapshot of the start was on its way is in the snapshot.
    auto const is_snapshot = [](AllocatorEvent const& event) { return event.action == TraceAction::snapshot; };
    auto const first = std::find_if(events_.begin(), end, is_snapshot);
    trace_.events.reserve(static_cast<std::size_t>(end - events_.begin()));
    auto mark = trace_.marks.begin();
    for (auto event = first == end ? events_.begin() : first; event != end; ++event) {
      auto const number = static_cast<std::uint64_t>(event - events_.begin());
      for (; mark != trace_.marks.end() && mark->event <= number; ++mark) { mark->event = trace_.events.size(); }
      if (!is_snapshot(*event)) { trace_.events.push_back(converted(*event)); }  // trials take some too
    }
    for (; mark != trace_.marks.end(); ++mark) { mark->event = trace_.events.size(); }
    if (lost() > 0) {
      TraceMark incomplete;
      incomplete.event = trace_.events.size();
      incomplete.label = "incomplete";
      incomplete.statistics = {{"lost_events", static_cast<std::int64_t>(lost())}};
      trace_.marks.push_back(std::move(incomplete));
    }
    return std::move(trace_);
  }

 private:
  void stop() noexcept {
    if (!std::exchange(stopped_, true)) { AllocatorHook::of_process().detach(index_, AllocatorHook::Place::recorder); }
  }

  TraceEvent converted(AllocatorEvent const& event) {
    TraceEvent made;
    made.address = event.address;
    made.size = event.size;
    made.stream = trace_.stream_index(event.stream);
    made.pool = trace_.pool_index({event.pool_first, event.pool_second});
    made.action = event.action;
    return made;
  }

  c10::DeviceIndex const index_;
  std::vector<AllocatorEvent> events_;
  std::atomic<std::size_t> written_{0};
  std::atomic<std::uint64_t> lost_{0};
  std::mutex marks_mutex_;
  AllocationTrace trace_;
  bool stopped_ = false;
};

TraceRecorder::TraceRecorder(c10::DeviceIndex index, std::size_t capacity) {
  if (capacity == 0) {
    throw InvalidArgument("A trace recorder needs room for at least one event, and its capacity is 0.");
  }
  buffer_ = std::make_unique<Buffer>(index, capacity);
}

TraceRecorder::~TraceRecorder() = default;

void TraceRecorder::begin_step(std::int64_t number) { buffer_->mark(Kind::step_begin, std::to_string(number)); }
void TraceRecorder::end_step(std::int64_t number) { buffer_->mark(Kind::step_end, std::to_string(number)); }
void TraceRecorder::begin_phase(std::string_view name) { buffer_->mark(Kind::phase_begin, name); }
void TraceRecorder::end_phase(std::string_view name) { buffer_->mark(Kind::phase_end, name); }

void TraceRecorder::mark_statistics(std::string_view label) {
  auto const stats = c10::cuda::CUDACachingAllocator::getDeviceStats(buffer_->index());
  auto const& reserved = stats.reserved_bytes[kAggregate];
  buffer_->mark(Kind::statistics, label,
                statistics_of(stats.allocated_bytes[kAggregate].peak, reserved.peak, reserved.current));
}

std::uint64_t TraceRecorder::event_count() const { return buffer_->written(); }
std::uint64_t TraceRecorder::lost_events() const { return buffer_->lost(); }

AllocationTrace TraceRecorder::finish() {
  if (finished_) { throw std::logic_error("this recording is finished already"); }
  finished_ = true;
  return buffer_->finish();
}

}  // namespace maxbatch
