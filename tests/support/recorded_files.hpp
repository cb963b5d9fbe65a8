#pragma once

#include <maxbatch/simulation/allocation_trace.hpp>
#include <maxbatch/simulation/caching_allocator_simulator.hpp>
#include <maxbatch/simulation/trace_file.hpp>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

namespace maxbatch::test {

/// The recordings of tests/data, and those that lie beside a checkout of ours where there are any.
inline std::vector<std::string> recorded_files() {
  std::vector<std::string> paths;
  std::string const data = MAXBATCH_TEST_DATA_DIR;
  std::vector<std::string> names;
  for (auto const& folder : {data + "/recordings", data + "/../../../shared/data/traces"}) {
    std::error_code none;
    for (auto const& entry : std::filesystem::directory_iterator(folder, none)) {
      auto const name = entry.path().filename().string();
      auto const is_recording = name.size() > 7 && name.compare(name.size() - 7, 7, ".csv.gz") == 0;
      if (!is_recording || std::find(names.begin(), names.end(), name) != names.end()) { continue; }
      names.push_back(name);
      paths.push_back(entry.path().string());
    }
  }
  std::sort(paths.begin(), paths.end());
  return paths;
}

/// A program as plain calls, with blocks by dense numbers: what a replay that wants to be fast holds.
struct RecordedCall {
  bool allocates = false;
  std::uint32_t block = 0;
  Bytes size;
  StreamHandle stream = kDefaultStream;
};

struct RecordedProgram {
  std::string name;
  AllocatorOptions options;
  std::optional<Bytes> limit;
  std::vector<RecordedCall> calls;
  std::size_t blocks = 0;
  std::vector<SegmentPurchase> purchases;
  std::vector<AllocatorEvent> events;
  bool has_free_requests = false;
  struct Mark {
    std::size_t call = 0;  // before it
    std::int64_t allocated_peak = 0;
    std::int64_t reserved_peak = 0;
    std::int64_t reserved = 0;
  };
  std::vector<Mark> marks;

  CachingAllocatorSimulator simulator(DeviceAddressSpace addresses, bool record_events = false) const {
    auto chosen = options;
    chosen.record_events = record_events;
    CachingAllocatorSimulator made(chosen, std::move(addresses));
    made.set_limit(limit);
    return made;
  }
};

/// Limit and expandable segments are told by the name of the file.
inline RecordedProgram recorded_program(std::string const& path) {
  auto const trace = read_allocation_trace(path);
  RecordedProgram program;
  program.name = std::filesystem::path(path).filename().string();
  program.options.settings.expandable_segments = program.name.find("expandable") != std::string::npos;
  auto const cap = program.name.find("-cap");
  if (cap != std::string::npos) {
    program.limit = Bytes{std::int64_t{std::atoi(program.name.c_str() + cap + 4)} << 20};
  }
  std::unordered_map<DeviceAddress, std::uint32_t> held;
  auto mark = trace.marks.begin();
  for (std::size_t i = 0; i <= trace.events.size(); ++i) {
    for (; mark != trace.marks.end() && mark->event == i; ++mark) {
      program.marks.push_back({program.calls.size(), mark->statistic("allocated_peak").value_or(-1),
                               mark->statistic("reserved_peak").value_or(-1),
                               mark->statistic("reserved").value_or(-1)});
    }
    if (i == trace.events.size()) { break; }
    auto const& event = trace.events[i];
    auto const stream = trace.streams[event.stream];
    auto const size = Bytes{event.size};
    auto const note = [&](AllocatorAction action) {
      program.events.push_back({action, event.address, size, stream, {}});
    };
    switch (event.action) {
      case TraceAction::alloc:
      case TraceAction::oom: {
        auto const block = static_cast<std::uint32_t>(program.blocks++);
        program.calls.push_back({true, block, size, stream});
        if (event.action == TraceAction::alloc) { held[event.address] = block; }
        note(event.action == TraceAction::alloc ? AllocatorAction::alloc : AllocatorAction::oom);
        break;
      }
      case TraceAction::free_completed:
        program.calls.push_back({false, held.at(event.address), size, stream});
        held.erase(event.address);
        note(AllocatorAction::free_completed);
        break;
      case TraceAction::free_requested:
        program.has_free_requests = true;
        note(AllocatorAction::free_requested);
        break;
      case TraceAction::segment_alloc:
      case TraceAction::segment_map:
        program.purchases.push_back({event.address, size});
        note(event.action == TraceAction::segment_alloc ? AllocatorAction::segment_alloc
                                                        : AllocatorAction::segment_map);
        break;
      case TraceAction::segment_free: note(AllocatorAction::segment_free); break;
      case TraceAction::segment_unmap: note(AllocatorAction::segment_unmap); break;
      case TraceAction::snapshot:
      case TraceAction::user_defined: break;
    }
  }
  return program;
}

}  // namespace maxbatch::test
