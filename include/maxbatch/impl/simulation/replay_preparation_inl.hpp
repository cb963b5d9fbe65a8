#pragma once

#include <maxbatch/impl/simulation/allocation_sizes.hpp>
#include <maxbatch/impl/simulation/replay_prologue.hpp>
#include <maxbatch/impl/simulation/trace_source.hpp>
#include <maxbatch/simulation/caching_allocator_simulator.hpp>
#include <maxbatch/simulation/replay_preparation.hpp>

#include <algorithm>
#include <limits>
#include <unordered_map>
#include <unordered_set>
#include <utility>

namespace maxbatch {
namespace detail {
inline namespace MAXBATCH_ABI_NAMESPACE {

/// Whose doing it was that memory went back to the driver.
///
/// A recording does not name calls of emptyCache. The allocator gives back memory of its own accord only to make room for
/// a request that it could not buy for: what follows is a purchase, or the refusal; the purchase on top of what was held
/// exceeds all that was ever held; and nothing that was free would have served. Everything else is the program's doing.
/// Where both are possible it is the allocator's, as under a budget it would be.
class FlushRecognition {
 public:
  FlushRecognition(AllocationTrace const& trace, ReplayProgram const& program)
      : trace_(trace),
        rules_(program.settings),
        partly_(program.settings.max_split_size.has_value() || program.settings.garbage_collection_threshold > 0) {
    std::int64_t reserved = 0;
    for (auto const& segment : trace.initial_segments) { reserved += segment.size; }
    largest_reserved_ = reserved;
    for (auto const& event : trace.events) {
      reserved += change_of(event);
      largest_reserved_ = std::max(largest_reserved_, reserved);
    }
  }

  static std::int64_t change_of(TraceEvent const& event) {
    switch (event.action) {
      case TraceAction::segment_alloc:
      case TraceAction::segment_map: return event.size;
      case TraceAction::segment_free:
      case TraceAction::segment_unmap: return -event.size;
      default: return 0;
    }
  }

  /// Whether memory that went back before events[next] must have been given back by the program; `reserved`: before that.
  /// None: only the allocator's state can tell, where it would serve the request `size_after` without.
  std::optional<bool> is_programs(std::size_t next, std::int64_t reserved) const {
    if (next == trace_.events.size() || trace_.events[next].action == TraceAction::oom) {
      return next == trace_.events.size();
    }
    auto const action = trace_.events[next].action;
    if (action != TraceAction::segment_alloc && action != TraceAction::segment_map) { return true; }
    if (partly_) { return false; }
    auto const wanted = purchase_for(next);
    if (trace_.limit) { return reserved + wanted <= trace_.limit->count; }
    if (reserved + wanted <= largest_reserved_) { return true; }
    return std::nullopt;
  }
  /// The request that the purchase at events[next] is for; null: none follows.
  TraceEvent const* request_after(std::size_t next) const {
    for (auto i = next; i < trace_.events.size(); ++i) {
      auto const action = trace_.events[i].action;
      if (action == TraceAction::alloc) { return &trace_.events[i]; }
      if (action != TraceAction::segment_map && action != TraceAction::segment_alloc) { break; }
    }
    return nullptr;
  }

 private:
  std::int64_t purchase_for(std::size_t next) const {
    auto const* const request = request_after(next);
    if (request == nullptr) { return trace_.events[next].size; }
    return static_cast<std::int64_t>(rules_.segment_for(rules_.rounded(static_cast<std::uint64_t>(request->size))));
  }

  AllocationTrace const& trace_;
  SizeRules rules_;
  bool partly_;
  std::int64_t largest_reserved_ = 0;
};

class ReplayProgramBuilder {
 public:
  ReplayProgramBuilder(AllocationTrace const& trace, std::string const& name,
                       std::optional<AllocatorSettings> const& settings)
      : trace_(trace), name_(name) {
    program_.settings = settings ? *settings : settings_of(trace);
    program_.streams = trace.streams;
    program_.pools = trace.pools;
    program_.total_memory = trace.total_memory;
  }

  ReplayProgram build() {
    if (trace_.events.size() > std::numeric_limits<std::uint32_t>::max()) {
      fail_trace(name_, "", "more than 2^32 events");
    }
    SizeRules const rules(program_.settings);
    if (!trace_.initial_segments.empty()) { begin_with_what_was_there(rules); }
    FlushRecognition const flushes(trace_, program_);
    std::int64_t reserved = program_initial_bytes();
    program_.operations.reserve(trace_.events.size());
    program_.event_of.reserve(trace_.events.size());
    for (std::size_t i = 0; i < trace_.events.size(); ++i) {
      auto const& event = trace_.events[i];
      auto const change = FlushRecognition::change_of(event);
      if (change < 0) {
        i = give_back(i, reserved, flushes);
        continue;
      }
      if (change > 0) {
        program_.purchases.push_back({event.address, Bytes{event.size}});
        reserved += change;
        if (reserved > kMostBytes) { fail_at(i, "the allocator would hold more than 1 EiB"); }
        continue;
      }
      add(i, event, rules);
    }
    program_.driver_events = driver_events_of(trace_);
    if (has_purchases_only_of_the_prologue()) { program_.purchases.clear(); }
    return std::move(program_);
  }

 private:
  using Kind = ReplayOperation::Kind;
  struct Held {
    std::uint32_t block = 0;
    std::int64_t rounded = 0;
    bool pending = false;
  };
  static constexpr std::int64_t kMostBytes = std::int64_t{1} << 60;

  [[noreturn]] void fail_at(std::size_t event, std::string const& what) const {
    auto const& at = trace_.events[event];
    fail_trace(name_, "event " + std::to_string(event),
               std::string(to_string(at.action)) + " of " + std::to_string(at.size) + " bytes at " +
                   std::to_string(at.address) + ": " + what);
  }

  /// Where a recording does not tell its settings, pages that were mapped tell the one that matters most.
  static AllocatorSettings settings_of(AllocationTrace const& trace) {
    auto settings = parse_allocator_settings(trace.allocator_settings);
    auto const maps = [](TraceEvent const& event) { return event.action == TraceAction::segment_map; };
    if (trace.allocator_settings.empty() && std::any_of(trace.events.begin(), trace.events.end(), maps)) {
      settings.expandable_segments = true;
    }
    return settings;
  }

  std::int64_t program_initial_bytes() const {
    std::int64_t bytes = 0;
    for (auto const& segment : trace_.initial_segments) { bytes += segment.size; }
    return bytes;
  }
  bool has_purchases_only_of_the_prologue() const {
    auto const was_bought = [](TraceEvent const& event) { return FlushRecognition::change_of(event) > 0; };
    return trace_.initial_segments.empty() && std::none_of(trace_.events.begin(), trace_.events.end(), was_bought);
  }

  void begin_with_what_was_there(SizeRules const& rules) {
    auto const blocks = ReplayPrologue(trace_, program_, name_).build();
    prologue_purchases_ = program_.purchases.size();
    for (auto const& segment : trace_.initial_segments) {
      for (auto const& block : segment.blocks) {
        if (block.state == TraceBlock::State::inactive) { continue; }
        auto const rounded = static_cast<std::int64_t>(rules.rounded(static_cast<std::uint64_t>(block.requested_size)));
        held_[block.address] = {blocks.at(block.address), rounded, false};
        hold(rounded);
      }
    }
  }

  void push(std::size_t event, Kind kind, std::int64_t size, std::uint32_t block) {
    auto const& at = trace_.events[event];
    program_.operations.push_back({size, block, at.stream, at.pool, kind});
    program_.event_of.push_back(static_cast<std::uint32_t>(event));
  }

  void add(std::size_t i, TraceEvent const& event, SizeRules const& rules) {
    switch (event.action) {
      case TraceAction::alloc: return add_request(i, event, rules);
      case TraceAction::free_requested: return add_free_request(i, event);
      case TraceAction::free_completed: return add_free(i, event);
      case TraceAction::oom:
        if (event.size == 0) { return; }
        count_request(i, event.size);
        push(i, Kind::refused, event.size, take_name());
        names_.push_back(program_.operations.back().block);
        if (!program_.ends_in_refusal) { program_.last_refusal = program_.operations.size() - 1; }
        program_.ends_in_refusal = true;
        return;
      default: return;
    }
  }

  void add_request(std::size_t i, TraceEvent const& event, SizeRules const& rules) {
    if (program_.ends_in_refusal) {
      ++program_.survived_refusals;  // of those in a row the program survived all
      program_.ends_in_refusal = false;
    }
    auto const [held, is_new] = held_.try_emplace(event.address);
    if (!is_new) { fail_at(i, "a block at this address is in use already"); }
    if (event.size == 0) { return; }  // never reaches the allocator
    count_request(i, event.size);
    held->second.rounded = static_cast<std::int64_t>(rules.rounded(static_cast<std::uint64_t>(event.size)));
    held->second.block = take_name();
    hold(held->second.rounded);
    push(i, Kind::allocate, event.size, held->second.block);
  }

  void add_free_request(std::size_t i, TraceEvent const& event) {
    auto const held = find_held(i, event);
    if (held->second.rounded == 0) { return; }
    if (held->second.pending) { fail_at(i, "it was asked for before"); }
    auto const next = i + 1;
    auto const completed_at_once = next < trace_.events.size() &&
                                   trace_.events[next].action == TraceAction::free_completed &&
                                   trace_.events[next].address == event.address;
    if (completed_at_once) { return; }
    held->second.pending = true;
    push(i, Kind::request_free, 0, held->second.block);
  }

  void add_free(std::size_t i, TraceEvent const& event) {
    auto const held = find_held(i, event);
    if (held->second.rounded != 0) {
      push(i, held->second.pending ? Kind::complete_free : Kind::free, 0, held->second.block);
      names_.push_back(held->second.block);
      held_bytes_ -= held->second.rounded;
    }
    held_.erase(held);
  }
  std::unordered_map<DeviceAddress, Held>::iterator find_held(std::size_t i, TraceEvent const& event) {
    auto const held = held_.find(event.address);
    if (held == held_.end()) {
      fail_at(i, "nothing at this address is in use; what existed before the recording has to be in it");
    }
    return held;
  }

  /// Sums of sizes stay far from overflow in everything that a simulation counts.
  void count_request(std::size_t i, std::int64_t size) {
    auto const bought = std::max(size, program_.settings.large_segment_size.count);
    constexpr auto most = std::int64_t{1} << 62;
    if (bought > most - requested_in_all_) { fail_at(i, "the requests add up to more than can be counted"); }
    requested_in_all_ += bought;
  }
  void hold(std::int64_t rounded) {
    held_bytes_ += rounded;
    program_.held_peak.count = std::max(program_.held_peak.count, held_bytes_);
  }
  std::uint32_t take_name() {
    if (names_.empty()) { return program_.block_count++; }
    auto const name = names_.back();
    names_.pop_back();
    return name;
  }

  /// From the first event that gives memory back to the last in a row.
  std::size_t give_back(std::size_t first, std::int64_t& reserved, FlushRecognition const& flushes) {
    auto const before = reserved;
    auto last = first;
    for (auto i = first; i < trace_.events.size() && FlushRecognition::change_of(trace_.events[i]) < 0; ++i) {
      reserved += FlushRecognition::change_of(trace_.events[i]);
      if (reserved < 0) { fail_at(i, "more is given back than was bought"); }
      last = i;
    }
    auto const programs = flushes.is_programs(last + 1, before);
    if (programs ? *programs : would_have_been_served(flushes.request_after(last + 1))) {
      push(first, Kind::empty_cache, 0, 0);
      ++program_.empty_cache_calls;
    } else {
      program_.had_flushes = true;
      flushes_.push_back(program_.operations.size());
    }
    return last;
  }

  /// Whether a free block would have done for the request before the memory went back. Replays up to here, flushing where
  /// the recording did.
  bool would_have_been_served(TraceEvent const* request) {
    // Each asks for a copy of the allocator's state: enough to be sure, and bounded.
    constexpr int most_questions = 256;
    if (request == nullptr || ++questions_ > most_questions) { return false; }
    run_so_far();
    auto copy = *simulator_;
    auto const before = copy.reserved_bytes();
    auto const block =
        copy.allocate(Bytes{request->size}, trace_.streams[request->stream], trace_.pools[request->pool]);
    return block && copy.reserved_bytes() == before;
  }
  void run_so_far() {
    if (!simulator_) {
      AllocatorOptions options;
      options.settings = program_.settings;
      options.device.total_memory = Bytes{std::int64_t{1} << 40};
      simulator_.emplace(options, DeviceAddressSpace::recorded(all_purchases()));
      simulator_->set_limit(std::nullopt);
      for (auto const& operation : program_.prologue) { run(operation); }
    }
    for (; ran_ < program_.operations.size(); ++ran_) {
      while (next_flush_ < flushes_.size() && flushes_[next_flush_] == ran_) {
        simulator_->empty_cache();
        ++next_flush_;
      }
      run(program_.operations[ran_]);
    }
  }
  std::vector<SegmentPurchase> all_purchases() const {
    auto purchases = program_.purchases;
    purchases.resize(prologue_purchases_);
    for (auto const& event : trace_.events) {
      if (FlushRecognition::change_of(event) > 0) { purchases.push_back({event.address, Bytes{event.size}}); }
    }
    return purchases;
  }
  void run(ReplayOperation const& operation) {
    if (operation.block >= blocks_.size()) { blocks_.resize(std::size_t{operation.block} + 1); }
    auto& block = blocks_[operation.block];
    switch (operation.kind) {
      case Kind::allocate:
        block =
            simulator_->allocate(Bytes{operation.size}, trace_.streams[operation.stream], trace_.pools[operation.pool]);
        break;
      case Kind::free:
        if (block) { simulator_->free(block); }
        break;
      case Kind::request_free:
        if (block) { simulator_->request_free(block); }
        break;
      case Kind::complete_free:
        if (block) { simulator_->complete_free(block); }
        break;
      case Kind::empty_cache: simulator_->empty_cache(); break;
      case Kind::refused: break;
    }
  }

  AllocationTrace const& trace_;
  std::string const& name_;
  ReplayProgram program_;
  std::unordered_map<DeviceAddress, Held> held_;
  std::vector<std::uint32_t> names_;  // free ones
  std::int64_t held_bytes_ = 0;
  std::int64_t requested_in_all_ = 0;

  std::optional<CachingAllocatorSimulator> simulator_;  // only where a flush is in doubt
  std::vector<BlockId> blocks_;
  std::size_t ran_ = 0;
  std::vector<std::size_t> flushes_;  // the allocator's own, ahead of these operations
  std::size_t next_flush_ = 0;
  std::size_t prologue_purchases_ = 0;
  int questions_ = 0;
};

}  // namespace MAXBATCH_ABI_NAMESPACE
}  // namespace detail

inline namespace MAXBATCH_ABI_NAMESPACE {

MAXBATCH_INLINE ReplayProgram make_replay_program(AllocationTrace const& trace, std::string const& name,
                                                  std::optional<AllocatorSettings> const& settings) {
  return detail::ReplayProgramBuilder(trace, name, settings).build();
}

MAXBATCH_INLINE DriverEvents driver_events_of(AllocationTrace const& trace) {
  constexpr std::int64_t hopper_workspace = std::int64_t{32} << 20;
  constexpr std::int64_t other_workspace = 8519680;
  // Of recordings without marks: the first free comes a little after the set-up.
  constexpr std::int64_t set_up_before_first_free = 5;
  constexpr std::int64_t grows_after_set_up = 2;
  std::optional<std::int64_t> set_up;
  std::optional<std::int64_t> first_free;
  std::unordered_map<DeviceAddress, std::int64_t> workspaces;  // held ones, by the number of the request
  std::int64_t requests = 0;
  auto mark = trace.marks.begin();
  auto const pass_marks = [&](std::size_t event) {
    for (; mark != trace.marks.end() && mark->event <= event; ++mark) {
      auto const ends_set_up = (mark->kind == TraceMark::Kind::statistics && mark->label == "setup") ||
                               mark->kind == TraceMark::Kind::step_begin ||
                               (mark->kind == TraceMark::Kind::phase_begin && mark->label == "forward");
      if (ends_set_up && !set_up) { set_up = requests; }
    }
  };
  for (std::size_t i = 0; i < trace.events.size(); ++i) {
    pass_marks(i);
    auto const& event = trace.events[i];
    if (event.action == TraceAction::free_completed) {
      if (!first_free) { first_free = requests; }
      workspaces.erase(event.address);
    } else if (event.action == TraceAction::alloc && event.size > 0) {
      if (event.size == hopper_workspace || event.size == other_workspace) { workspaces[event.address] = requests; }
      ++requests;
    }
  }
  DriverEvents events;
  if (!set_up && first_free) { set_up = std::max<std::int64_t>(0, *first_free - set_up_before_first_free); }
  for (auto const& [address, request] : workspaces) {
    if (!set_up || request >= *set_up) { events.cublas_handle_before.push_back(request); }
  }
  std::sort(events.cublas_handle_before.begin(), events.cublas_handle_before.end());
  if (set_up) {
    events.local_memory_grows_before = *set_up + grows_after_set_up;
    if (!events.cublas_handle_before.empty()) {
      events.local_memory_grows_before =
          std::min(*events.local_memory_grows_before, events.cublas_handle_before.front());
    }
  }
  return events;
}

}  // namespace MAXBATCH_ABI_NAMESPACE
}  // namespace maxbatch
