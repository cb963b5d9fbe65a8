#pragma once

#include <maxbatch/impl/simulation/allocation_sizes.hpp>
#include <maxbatch/simulation/trace_replay.hpp>

#include <algorithm>
#include <utility>

namespace maxbatch {
namespace detail {
inline namespace MAXBATCH_ABI_NAMESPACE {

/// LibTorch's own default in these headers is an H200; more where a recording held a lot.
inline SimulatedDevice device_for(ReplayProgram const& program) {
  SimulatedDevice device;
  if (program.total_memory && *program.total_memory > Bytes{0}) { device.total_memory = *program.total_memory; }
  constexpr Bytes largest{std::int64_t{1} << 40};
  constexpr int room = 4;
  if (device.total_memory.count / room < program.held_peak.count) { device.total_memory = largest; }
  device.total_memory = std::min(device.total_memory, largest);
  return device;
}

inline DeviceAddressSpace addresses_for(ReplayProgram const& program, ReplayOptions const& options) {
  if (options.modelled_addresses || program.purchases.empty()) {
    return DeviceAddressSpace::modelled(options.placement);
  }
  return DeviceAddressSpace::recorded(program.purchases);
}

inline AllocatorOptions allocator_options_for(ReplayProgram const& program, ReplayOptions const& options) {
  AllocatorOptions allocator;
  allocator.settings = program.settings;
  allocator.device = options.device ? *options.device : device_for(program);
  return allocator;
}

}  // namespace MAXBATCH_ABI_NAMESPACE
}  // namespace detail

inline namespace MAXBATCH_ABI_NAMESPACE {

struct TraceReplay::Machine {
  Machine(TraceReplay const& replay, CachingAllocatorSimulator start, std::vector<BlockId> start_blocks)
      : program(replay.program_),
        simulator(std::move(start)),
        blocks(std::move(start_blocks)),
        schedule(replay.models_addresses() ? replay.program_.driver_events : DriverEvents{}) {}

  /// False: a request was refused that the recorded program was served.
  bool run(ReplayOperation const& operation) {
    using Kind = ReplayOperation::Kind;
    auto& block = blocks[operation.block];
    switch (operation.kind) {
      case Kind::allocate: block = request(operation); return static_cast<bool>(block);
      case Kind::free: simulator.free(block); break;
      case Kind::request_free: simulator.request_free(block); break;
      case Kind::complete_free: simulator.complete_free(block); break;
      case Kind::empty_cache: simulator.empty_cache(); break;
      case Kind::refused:
        block = request(operation);
        // What the program would have done with it is not known; a library's scratch is given back soon.
        if (block) {
          simulator.free(block);
        } else {
          refused_again = true;
        }
        break;
    }
    return true;
  }
  BlockId request(ReplayOperation const& operation) {
    schedule.before_request(requests++, simulator.addresses());
    auto const stream = program.streams[operation.stream];
    return operation.pool == 0 ? simulator.allocate(Bytes{operation.size}, stream)
                               : simulator.allocate(Bytes{operation.size}, stream, program.pools[operation.pool]);
  }

  ReplayProgram const& program;
  CachingAllocatorSimulator simulator;
  std::vector<BlockId> blocks;
  DriverEventSchedule schedule;
  std::int64_t requests = 0;
  bool refused_again = false;
};

MAXBATCH_INLINE TraceReplay::TraceReplay(ReplayProgram program, ReplayOptions const& options)
    : program_(std::move(program)),
      options_(options),
      start_(detail::allocator_options_for(program_, options_), detail::addresses_for(program_, options_)) {
  start_.set_limit(std::nullopt);
  start_blocks_.resize(std::max<std::size_t>(program_.block_count, 1));
  for (auto const& operation : program_.prologue) {
    auto& block = start_blocks_[operation.block];
    switch (operation.kind) {
      case ReplayOperation::Kind::allocate:
        block =
            start_.allocate(Bytes{operation.size}, program_.streams[operation.stream], program_.pools[operation.pool]);
        if (!block) { return; }  // a device that is too small already
        break;
      case ReplayOperation::Kind::free: start_.free(block); break;
      default: start_.empty_cache(); break;
    }
  }
  started_ = true;
  start_.reset_peak_statistics();
  start_purchases_ = start_.statistics().num_device_alloc;
}

MAXBATCH_INLINE bool TraceReplay::models_addresses() const {
  return options_.modelled_addresses || program_.purchases.empty();
}

MAXBATCH_INLINE std::optional<TraceReplay::Machine> TraceReplay::begin(std::optional<Bytes> limit) const {
  if (!started_) { return std::nullopt; }
  Machine machine(*this, start_, start_blocks_);
  if (limit && machine.simulator.reserved_bytes() > *limit) {
    machine.simulator.empty_cache();
    machine.simulator.reset_peak_statistics();
    if (machine.simulator.reserved_bytes() > *limit) { return std::nullopt; }
  }
  machine.simulator.set_limit(limit);
  return machine;
}

MAXBATCH_INLINE ReplayOutcome TraceReplay::run(std::optional<Bytes> limit) const {
  ReplayOutcome outcome;
  outcome.modelled_addresses = models_addresses();
  auto machine = begin(limit);
  if (!machine) {
    outcome.statistics = start_.statistics();
    return outcome;
  }
  auto& simulator = machine->simulator;
  detail::SizeRules const rules(program_.settings);
  auto peak = simulator.reserved_peak();
  outcome.largest_claim = peak;
  outcome.fits = true;
  for (std::size_t i = 0; i < program_.operations.size(); ++i) {
    auto const& operation = program_.operations[i];
    machine->refused_again = false;
    auto const before = simulator.reserved_bytes();
    auto const served = machine->run(operation);
    if (simulator.reserved_bytes() > before) {
      auto const claimed = rules.segment_for(rules.rounded(static_cast<std::uint64_t>(operation.size)));
      outcome.largest_claim = std::max(outcome.largest_claim, before + Bytes{static_cast<std::int64_t>(claimed)});
    }
    if (simulator.reserved_peak() > peak) {
      peak = simulator.reserved_peak();
      outcome.peak_operation = i;
    }
    auto const is_last_refusal = machine->refused_again && program_.ends_in_refusal && i >= program_.last_refusal;
    if (!served || is_last_refusal) {
      outcome.fits = false;
      outcome.refused = simulator.refused_request();
      outcome.refused_event = program_.event_of[i];
      break;
    }
    outcome.survived_refusals += machine->refused_again ? 1 : 0;
  }
  outcome.largest_claim = std::max(outcome.largest_claim, simulator.reserved_peak());
  outcome.statistics = simulator.statistics();
  outcome.segments_bought = outcome.statistics.num_device_alloc - start_purchases_ + program_.initial_segments;
  outcome.left_recording = !outcome.modelled_addresses && simulator.addresses().diverged();
  return outcome;
}

MAXBATCH_INLINE Fragmentation TraceReplay::fragmentation(ReplayOutcome const& outcome,
                                                         std::optional<Bytes> limit) const {
  Fragmentation at_peak;
  auto machine = begin(limit);
  if (!machine) { return at_peak; }
  for (std::size_t i = 0; i <= outcome.peak_operation && i < program_.operations.size(); ++i) {
    if (!machine->run(program_.operations[i])) { break; }
  }
  for (auto const& segment : machine->simulator.segments()) {
    ++at_peak.segments;
    auto const in_use = std::any_of(segment.blocks.begin(), segment.blocks.end(), [](SimulatedBlock const& block) {
      return block.state == BlockState::allocated || block.state == BlockState::awaiting_events;
    });
    for (auto const& block : segment.blocks) {
      if (block.state == BlockState::unmapped) { continue; }
      at_peak.reserved = at_peak.reserved + block.size;
      if (block.state == BlockState::free) {
        (in_use ? at_peak.split : at_peak.unused_segments).count += block.size.count;
        at_peak.largest_free = std::max(at_peak.largest_free, block.size);
      } else {
        at_peak.requested = at_peak.requested + block.requested;
        at_peak.rounding = at_peak.rounding + (block.size - block.requested);
      }
    }
  }
  return at_peak;
}

MAXBATCH_INLINE FittingLimits fitting_limits(TraceReplay const& replay) {
  constexpr std::int64_t step = std::int64_t{2} << 20;
  auto const up = [](std::int64_t bytes) { return (bytes + step - 1) / step * step; };
  FittingLimits limits;
  auto const unlimited = replay.run(std::nullopt);
  limits.runs = 1;
  limits.unlimited_peak = Bytes{unlimited.statistics.reserved_bytes.aggregate.peak};
  if (!unlimited.fits) { return limits; }
  limits.smallest = Bytes{up(unlimited.largest_claim.count)};

  // A limit decides purchases only: what exceeds it is refused. Two limits between which no purchase ends make no
  // difference; the largest one that was made is the peak. Collecting garbage begins at a fraction of the limit, and the
  // pages of expandable segments may be fewer than the limit is asked about: there every limit is tried.
  auto const& settings = replay.program().settings;
  auto const skips = settings.garbage_collection_threshold == 0 && !settings.expandable_segments;
  auto const lowest = std::max(step, up(replay.program().held_peak.count));
  auto all_above_fit = true;
  for (auto limit = limits.smallest->count - step; limit >= lowest;) {
    auto const outcome = replay.run(Bytes{limit});
    ++limits.runs;
    auto const peak = up(outcome.statistics.reserved_bytes.aggregate.peak);
    auto const same_from = skips ? std::clamp(peak, lowest, limit) : limit;
    if (outcome.fits && all_above_fit) {
      limits.smallest = Bytes{same_from};
    } else if (outcome.fits) {
      for (auto fits = limit; fits >= same_from; fits -= step) { limits.isolated_fits.push_back(Bytes{fits}); }
    } else {
      all_above_fit = false;
    }
    limit = same_from - step;
  }
  std::reverse(limits.isolated_fits.begin(), limits.isolated_fits.end());
  return limits;
}

}  // namespace MAXBATCH_ABI_NAMESPACE
}  // namespace maxbatch
