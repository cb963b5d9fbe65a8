#pragma once

#include <maxbatch/simulation/allocation_program.hpp>
#include <maxbatch/simulation/trace_file.hpp>

#include <algorithm>
#include <array>
#include <cstdio>
#include <unordered_map>

namespace maxbatch {
namespace detail {
inline namespace MAXBATCH_ABI_NAMESPACE {

class ProgramReader {
 public:
  explicit ProgramReader(AllocationTrace const& trace) : trace_(trace) {
    program_.requests.reserve(trace.events.size() / 3 + 1);
    program_.operations.reserve(trace.events.size() * 2 / 3 + 1);
    program_.streams = trace.streams;
    program_.labels = trace.labels;
    program_.pools = trace.pools;
  }

  AllocationProgram read() {
    read_initial_blocks();
    auto mark = trace_.marks.begin();
    auto copy_marks_until = [&](std::size_t event) {
      for (; mark != trace_.marks.end() && mark->event <= event; ++mark) {
        program_.marks.push_back(*mark);
        program_.marks.back().event = program_.operations.size();
      }
    };
    for (std::size_t i = 0; i < trace_.events.size(); ++i) {
      copy_marks_until(i);
      read_event(i);
    }
    copy_marks_until(trace_.events.size());
    return std::move(program_);
  }

 private:
  using Kind = ProgramOperation::Kind;

  struct Block {
    std::uint32_t request = 0;
    bool is_pending = false;
  };

  void read_initial_blocks() {
    for (auto const& segment : trace_.initial_segments) {
      for (auto const& block : segment.blocks) {
        if (block.state == TraceBlock::State::inactive) { continue; }
        auto const size = block.requested_size > 0 ? block.requested_size : block.size;
        allocate(block.address, {size, 0, segment.stream, segment.pool, false}, "the initial segments");
        if (block.state == TraceBlock::State::pending_free) {
          auto& held = blocks_.at(block.address);
          held.is_pending = true;
          program_.operations.push_back({Kind::request_free, held.request});
        }
      }
    }
  }

  void read_event(std::size_t i) {
    auto const& event = trace_.events[i];
    switch (event.action) {
      case TraceAction::alloc:
        allocate(event.address, {event.size, event.label, event.stream, event.pool, false}, place(i));
        return;
      case TraceAction::free_requested: request_free(event.address, i); return;
      case TraceAction::free_completed: complete_free(event.address, i); return;
      case TraceAction::segment_free:
      case TraceAction::segment_unmap:
        if (is_last_of_a_flush(i) && !is_flush_for_a_request(i)) {
          program_.operations.push_back({Kind::empty_cache, 0});
        }
        return;
      case TraceAction::segment_alloc:
      case TraceAction::segment_map:
      case TraceAction::oom:
      case TraceAction::snapshot:
      case TraceAction::user_defined: return;
    }
  }

  void allocate(std::uint64_t address, ProgramRequest const& request, std::string const& where) {
    auto const number = static_cast<std::uint32_t>(program_.requests.size());
    if (!blocks_.emplace(address, Block{number, false}).second) { fail(where, address, "is handed out twice"); }
    program_.requests.push_back(request);
    program_.operations.push_back({Kind::allocate, number});
  }

  void request_free(std::uint64_t address, std::size_t i) {
    auto const found = blocks_.find(address);
    if (found == blocks_.end() || found->second.is_pending) { fail(place(i), address, "is freed and not held"); }
    auto const* const next = i + 1 < trace_.events.size() ? &trace_.events[i + 1] : nullptr;
    if (next != nullptr && next->action == TraceAction::free_completed && next->address == address) { return; }
    found->second.is_pending = true;
    program_.operations.push_back({Kind::request_free, found->second.request});
  }

  void complete_free(std::uint64_t address, std::size_t i) {
    auto const found = blocks_.find(address);
    if (found == blocks_.end()) { fail(place(i), address, "is freed and not held"); }
    program_.operations.push_back({found->second.is_pending ? Kind::complete_free : Kind::free, found->second.request});
    blocks_.erase(found);
  }

  static bool gives_back(TraceAction action) {
    return action == TraceAction::segment_free || action == TraceAction::segment_unmap;
  }

  bool is_last_of_a_flush(std::size_t i) const {
    return i + 1 == trace_.events.size() || !gives_back(trace_.events[i + 1].action);
  }

  /// A purchase or a refusal follows, once frees that the flush waited for are past.
  bool is_flush_for_a_request(std::size_t i) const {
    for (++i; i < trace_.events.size(); ++i) {
      auto const action = trace_.events[i].action;
      if (action == TraceAction::free_completed) { continue; }
      return action == TraceAction::segment_alloc || action == TraceAction::segment_map || action == TraceAction::oom;
    }
    return false;
  }

  static std::string place(std::size_t i) { return "event " + std::to_string(i); }

  [[noreturn]] static void fail(std::string const& where, std::uint64_t address, char const* what) {
    std::array<char, 19> text{};
    std::snprintf(text.data(), text.size(), "0x%llx", static_cast<unsigned long long>(address));
    throw TraceError(where + ": the block at " + text.data() + " " + what);
  }

  AllocationTrace const& trace_;
  AllocationProgram program_;
  std::unordered_map<std::uint64_t, Block> blocks_;
};

}  // namespace MAXBATCH_ABI_NAMESPACE
}  // namespace detail

inline namespace MAXBATCH_ABI_NAMESPACE {

MAXBATCH_INLINE AllocationProgram program_of(AllocationTrace const& trace) {
  return detail::ProgramReader(trace).read();
}

MAXBATCH_INLINE std::vector<RequestLifetime> lifetimes_of(AllocationProgram const& program) {
  std::vector<RequestLifetime> lifetimes(program.requests.size());
  for (std::uint32_t i = 0; i < program.operations.size(); ++i) {
    auto const& operation = program.operations[i];
    switch (operation.kind) {
      case ProgramOperation::Kind::allocate: lifetimes[operation.request].begins = i; break;
      case ProgramOperation::Kind::free:
      case ProgramOperation::Kind::request_free: lifetimes[operation.request].ends = i; break;
      case ProgramOperation::Kind::complete_free:
      case ProgramOperation::Kind::empty_cache: break;
    }
  }
  return lifetimes;
}

MAXBATCH_INLINE Bytes least_peak(AllocationProgram const& program, bool without_workspaces) {
  std::int64_t live = 0;
  std::int64_t peak = 0;
  for (auto const& operation : program.operations) {
    if (operation.kind == ProgramOperation::Kind::empty_cache ||
        operation.kind == ProgramOperation::Kind::request_free) {
      continue;
    }
    auto const& request = program.requests[operation.request];
    if (without_workspaces && request.is_workspace) { continue; }
    auto const rounded = (std::max<std::int64_t>(request.size, 1) + 511) / 512 * 512;
    if (operation.kind == ProgramOperation::Kind::allocate) {
      live += rounded;
      peak = std::max(peak, live);
    } else {
      live -= rounded;
    }
  }
  return Bytes{peak};
}

}  // namespace MAXBATCH_ABI_NAMESPACE
}  // namespace maxbatch
