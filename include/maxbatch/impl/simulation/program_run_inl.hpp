#pragma once

#include <maxbatch/simulation/caching_allocator_simulator.hpp>
#include <maxbatch/simulation/program_run.hpp>

#include <string>
#include <utility>
#include <vector>

namespace maxbatch {
namespace detail {
inline namespace MAXBATCH_ABI_NAMESPACE {

class ProgramRunner {
 public:
  ProgramRunner(AllocationProgram const& program, DriverEvents const& driver_events, ProgramRunOptions const& options,
                bool record_events)
      : program_(program),
        options_(options),
        schedule_(driver_events),
        simulator_(allocator_options(options, record_events), DeviceAddressSpace::modelled(options.placement)),
        blocks_(program.requests.size()) {
    simulator_.set_limit(options.limit);
  }

  /// `before_operation(i)` is called ahead of each, and once more at the end.
  template <class BeforeOperation>
  ProgramRun run(BeforeOperation const& before_operation) {
    ProgramRun result;
    for (std::size_t i = 0; i < program_.operations.size(); ++i) {
      before_operation(i);
      auto const& operation = program_.operations[i];
      switch (operation.kind) {
        case ProgramOperation::Kind::allocate:
          if (!allocate(operation.request, result)) { return finish(result, false); }
          break;
        case ProgramOperation::Kind::free:
          if (auto const block = blocks_[operation.request]) { simulator_.free(block); }
          break;
        case ProgramOperation::Kind::request_free:
          if (auto const block = blocks_[operation.request]) { simulator_.request_free(block); }
          break;
        case ProgramOperation::Kind::complete_free:
          if (auto const block = blocks_[operation.request]) { simulator_.complete_free(block); }
          break;
        case ProgramOperation::Kind::empty_cache: simulator_.empty_cache(); break;
      }
    }
    before_operation(program_.operations.size());
    return finish(result, true);
  }

  CachingAllocatorSimulator& simulator() { return simulator_; }

 private:
  static AllocatorOptions allocator_options(ProgramRunOptions const& options, bool record_events) {
    AllocatorOptions result;
    result.settings = options.settings;
    result.device = options.device;
    result.record_events = record_events;
    return result;
  }

  bool allocate(std::uint32_t number, ProgramRun& result) {
    auto const& request = program_.requests[number];
    schedule_.before_request(number, simulator_.addresses());
    auto const stream = program_.streams[request.stream];
    auto const size = Bytes{request.size};
    auto const block = request.pool == 0 ? simulator_.allocate(size, stream)
                                         : simulator_.allocate(size, stream, program_.pools[request.pool]);
    blocks_[number] = block;
    if (block || request.size == 0) { return true; }
    if (options_.workspaces_are_elastic && request.is_workspace) {
      ++result.refused_workspaces;
      return true;
    }
    result.failed_request = number;
    return false;
  }

  ProgramRun finish(ProgramRun& result, bool fits) {
    auto const statistics = simulator_.statistics();
    result.fits = fits;
    result.reserved_peak = simulator_.reserved_peak();
    result.allocated_peak = simulator_.allocated_peak();
    result.segments_bought = statistics.num_device_alloc;
    result.retries = statistics.num_alloc_retries;
    result.refused = simulator_.refused_request();
    return result;
  }

  AllocationProgram const& program_;
  ProgramRunOptions const& options_;
  DriverEventSchedule schedule_;
  CachingAllocatorSimulator simulator_;
  std::vector<BlockId> blocks_;
};

inline TraceAction action_of(AllocatorAction action) {
  switch (action) {
    case AllocatorAction::alloc: return TraceAction::alloc;
    case AllocatorAction::free_requested: return TraceAction::free_requested;
    case AllocatorAction::free_completed: return TraceAction::free_completed;
    case AllocatorAction::segment_alloc: return TraceAction::segment_alloc;
    case AllocatorAction::segment_free: return TraceAction::segment_free;
    case AllocatorAction::segment_map: return TraceAction::segment_map;
    case AllocatorAction::segment_unmap: return TraceAction::segment_unmap;
    case AllocatorAction::oom: return TraceAction::oom;
  }
  return TraceAction::user_defined;
}

}  // namespace MAXBATCH_ABI_NAMESPACE
}  // namespace detail

inline namespace MAXBATCH_ABI_NAMESPACE {

MAXBATCH_INLINE DriverEvents driver_events_of(AllocationProgram const& program,
                                              std::optional<std::uint32_t> first_sample_request) {
  constexpr std::int64_t hopper_workspace = std::int64_t{32} << 20;
  constexpr std::int64_t other_workspace = 8519680;
  constexpr std::int64_t after_set_up = 2;  // see DriverEvents
  std::int64_t set_up = 0;
  // Where the ends of steps alone are marked, the first comes too late.
  auto const marks_the_set_up = !program.marks.empty() && program.marks.front().kind != TraceMark::Kind::step_end;
  if (marks_the_set_up) {
    for (std::size_t i = 0; i < program.marks.front().event && i < program.operations.size(); ++i) {
      if (program.operations[i].kind == ProgramOperation::Kind::allocate) { ++set_up; }
    }
  } else if (first_sample_request) {
    set_up = *first_sample_request;
  }
  DriverEvents events;
  if (set_up > 0) { events.local_memory_grows_before = set_up + after_set_up; }
  auto const lives = lifetimes_of(program);
  for (auto request = static_cast<std::size_t>(set_up); request < program.requests.size(); ++request) {
    auto const size = program.requests[request].size;
    if (!lives[request].is_freed() && (size == hopper_workspace || size == other_workspace)) {
      events.cublas_handle_before.push_back(static_cast<std::int64_t>(request));
    }
  }
  return events;
}

MAXBATCH_INLINE ProgramRun run_program(AllocationProgram const& program, DriverEvents const& driver_events,
                                       ProgramRunOptions const& options) {
  return detail::ProgramRunner(program, driver_events, options, /*record_events=*/false).run([](std::size_t) {});
}

MAXBATCH_INLINE AllocationTrace trace_of_run(AllocationProgram const& program, DriverEvents const& driver_events,
                                             ProgramRunOptions const& options) {
  AllocationTrace trace;
  trace.labels = program.labels;
  trace.total_memory = options.device.total_memory;
  trace.limit = options.limit;
  trace.allocator_settings = to_string(options.settings);
  trace.world = TraceWorld::simulated;
  detail::ProgramRunner runner(program, driver_events, options, /*record_events=*/true);
  auto mark = program.marks.begin();
  std::uint32_t request = 0;
  runner.run([&](std::size_t operation) {
    // What the operation before has done.
    for (auto const& event : runner.simulator().take_events()) {
      TraceEvent written;
      written.action = detail::action_of(event.action);
      written.address = event.address;
      written.size = event.size.count;
      written.stream = trace.stream_index(event.stream);
      written.pool = trace.pool_index(event.pool);
      if (event.action == AllocatorAction::alloc) { written.label = program.requests[request].label; }
      trace.events.push_back(written);
    }
    for (; mark != program.marks.end() && mark->event <= operation; ++mark) {
      auto const& simulator = runner.simulator();
      trace.marks.push_back(*mark);
      trace.marks.back().event = trace.events.size();
      trace.marks.back().statistics = {{"allocated_peak", simulator.allocated_peak().count},
                                       {"reserved_peak", simulator.reserved_peak().count},
                                       {"reserved", simulator.reserved_bytes().count}};
    }
    if (operation < program.operations.size()) { request = program.operations[operation].request; }
  });
  for (auto const& event : runner.simulator().take_events()) {  // of the request that failed
    TraceEvent written;
    written.action = detail::action_of(event.action);
    written.address = event.address;
    written.size = event.size.count;
    written.stream = trace.stream_index(event.stream);
    written.pool = trace.pool_index(event.pool);
    trace.events.push_back(written);
  }
  return trace;
}

}  // namespace MAXBATCH_ABI_NAMESPACE
}  // namespace maxbatch
