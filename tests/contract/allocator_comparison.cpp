#include "allocator_comparison.hpp"

#include "real_allocator.hpp"
#include <maxbatch/simulation/caching_allocator_simulator.hpp>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <map>
#include <optional>
#include <set>
#include <sstream>
#include <vector>

namespace maxbatch::test {
namespace {

using Kind = AllocatorCall::Kind;

constexpr std::int64_t kBetweenChecks = 16;  // calls between looking at every block

/// A call as it was made, and what became of it.
struct Step {
  AllocatorCall call;
  bool served = false;
  std::optional<std::int64_t> limit;
  std::vector<AllocatorEvent> events;
  AllocatorStatistics statistics;
};

struct RealRun {
  SimulatedDevice device;
  std::array<StreamHandle, kMostStreams> streams{};
  std::array<PrivatePoolId, kMostPools> pools{};
  std::vector<Step> steps;
};

/// Leaves out the calls that would be misuse: LibTorch's asserts are not part of the contract.
class Referee {
 public:
  bool allows(AllocatorCall const& call) const {
    auto const& pool = pools_.at(static_cast<std::size_t>(call.pool));
    switch (call.kind) {
      case Kind::free: return held_.count(call.block) != 0;
      // What a capture records LibTorch keeps under the block's pointer, for whoever has that pointer later.
      case Kind::record_stream: return held_.count(call.block) != 0 && (call.flag || !captures());
      case Kind::begin_pool: return !pool.begun && !pool.released() && !pool.used_on_oom;
      case Kind::incref_pool: return !pool.released();
      case Kind::end_pool: return pool.begun;
      case Kind::release_pool: return pool.users > (pool.begun || pool.used_on_oom ? 1 : 0);
      case Kind::empty_pool: return !captures();
      // Among several such pools LibTorch chooses by a hash.
      case Kind::use_on_oom:
        return pool.users > 0 && !pool.begun &&
               (!call.flag || pool.used_on_oom ||
                std::none_of(pools_.begin(), pools_.end(), [](Pool const& other) { return other.used_on_oom; }));
      case Kind::no_split: return pool.users > 0;
      default: return true;
    }
  }
  void note(AllocatorCall const& call, bool served) {
    auto& pool = pools_.at(static_cast<std::size_t>(call.pool));
    switch (call.kind) {
      case Kind::allocate:
        if (served && call.bytes > 0) { held_.insert(call.block); }
        break;
      case Kind::free: held_.erase(call.block); break;
      case Kind::begin_pool: pool.begun = pool.made = true, ++pool.users; break;
      case Kind::incref_pool: pool.made = true, ++pool.users; break;
      case Kind::end_pool: pool.begun = false; break;
      case Kind::release_pool: --pool.users; break;
      case Kind::use_on_oom: pool.used_on_oom = call.flag; break;
      default: break;
    }
  }

 private:
  struct Pool {
    int users = 0;
    bool begun = false;
    bool made = false;
    bool used_on_oom = false;
    bool released() const { return made && users == 0; }
  };
  bool captures() const {
    return std::any_of(pools_.begin(), pools_.end(), [](Pool const& pool) { return pool.begun; });
  }

  std::set<int> held_;
  std::array<Pool, kMostPools> pools_;
};

void run_on_real(RealAllocator& real, AllocatorCall const& call, Step& step) {
  switch (call.kind) {
    case Kind::allocate: step.served = real.allocate(call.block, call.bytes, call.stream); break;
    case Kind::free: real.free(call.block); break;
    case Kind::record_stream: real.record_stream(call.block, call.stream); break;
    case Kind::synchronise: real.synchronise(call.stream); break;
    case Kind::empty_cache: real.empty_cache(); break;
    case Kind::set_limit:
      if (call.limited) {
        auto const reserved = real.statistics().reserved_bytes.aggregate.current;
        step.limit = std::clamp<std::int64_t>(reserved + call.above_reserved, 0, std::int64_t{1} << 36);
      }
      real.set_limit(step.limit);
      break;
    case Kind::set_settings: real.set_settings(call.settings); break;
    case Kind::begin_pool: real.begin_pool(call.pool, call.stream); break;
    case Kind::end_pool: real.end_pool(call.pool); break;
    case Kind::release_pool: real.release_pool(call.pool); break;
    case Kind::incref_pool: real.incref_pool(call.pool); break;
    case Kind::empty_pool: real.empty_pool(call.pool); break;
    case Kind::use_on_oom: real.use_on_oom(call.pool, call.flag); break;
    case Kind::no_split: real.no_split(call.pool); break;
    case Kind::reset_peaks: real.reset_peaks(); break;
    case Kind::reset_sums: real.reset_sums(); break;
  }
}

RealRun run_on_real(AllocatorProgram const& program) {
  RealAllocator real;
  RealRun run;
  run.device = real.device();
  for (int i = 0; i < kMostStreams; ++i) { run.streams.at(static_cast<std::size_t>(i)) = real.stream(i); }
  for (int i = 0; i < kMostPools; ++i) { run.pools.at(static_cast<std::size_t>(i)) = real.pool(i); }
  real.set_settings(program.settings);
  real.hold_events(program.holds_events);
  Referee referee;
  for (auto const& call : program.calls) {
    if (!referee.allows(call)) { continue; }
    Step step;
    step.call = call;
    run_on_real(real, call, step);
    referee.note(call, step.served);
    step.events = real.take_events();
    step.statistics = real.statistics();
    run.steps.push_back(std::move(step));
  }
  return run;
}

class SimulatedRun {
 public:
  SimulatedRun(AllocatorProgram const& program, RealRun const& real)
      : real_(real), simulator_(options_for(program, real), DeviceAddressSpace::recorded(purchases_of(real))) {}

  bool make(Step const& step) {
    auto const& call = step.call;
    auto const stream = real_.streams.at(static_cast<std::size_t>(std::max(0, call.stream)));
    auto const pool = real_.pools.at(static_cast<std::size_t>(call.pool));
    switch (call.kind) {
      case Kind::allocate: {
        auto const block = simulator_.allocate(Bytes{static_cast<std::int64_t>(call.bytes)}, stream);
        if (block) { blocks_[call.block] = block; }
        return block || call.bytes == 0;
      }
      case Kind::free: simulator_.free(blocks_.at(call.block)); break;
      case Kind::record_stream: simulator_.record_stream(blocks_.at(call.block), stream); break;
      case Kind::synchronise: simulator_.synchronise(stream); break;
      case Kind::empty_cache: simulator_.empty_cache(); break;
      case Kind::set_limit: simulator_.set_limit(step.limit ? std::optional(Bytes{*step.limit}) : std::nullopt); break;
      case Kind::set_settings:
        simulator_.set_settings(parse_allocator_settings(call.settings, simulator_.settings()));
        break;
      case Kind::begin_pool:
        simulator_.begin_allocate_to_pool(pool, call.stream < 0 ? std::nullopt : std::optional(stream));
        break;
      case Kind::end_pool: simulator_.end_allocate_to_pool(pool); break;
      case Kind::release_pool: simulator_.release_pool(pool); break;
      case Kind::incref_pool: simulator_.create_or_incref_pool(pool); break;
      case Kind::empty_pool: simulator_.empty_cache(pool); break;
      case Kind::use_on_oom: simulator_.set_use_on_oom(pool, call.flag); break;
      case Kind::no_split: simulator_.set_no_split(pool); break;
      case Kind::reset_peaks: simulator_.reset_peak_statistics(); break;
      case Kind::reset_sums: simulator_.reset_accumulated_statistics(); break;
    }
    return false;
  }

  CachingAllocatorSimulator& simulator() { return simulator_; }

 private:
  static AllocatorOptions options_for(AllocatorProgram const& program, RealRun const& real) {
    AllocatorOptions options;
    options.settings = parse_allocator_settings(program.settings);
    options.device = real.device;
    options.event_timing = program.holds_events ? EventTiming::synchronised : EventTiming::immediate;
    options.record_events = true;
    return options;
  }
  static std::vector<SegmentPurchase> purchases_of(RealRun const& real) {
    std::vector<SegmentPurchase> purchases;
    for (auto const& step : real.steps) {
      for (auto const& event : step.events) {
        if (event.action == AllocatorAction::segment_alloc || event.action == AllocatorAction::segment_map) {
          purchases.push_back({event.address, event.size});
        }
      }
    }
    return purchases;
  }

  RealRun const& real_;
  CachingAllocatorSimulator simulator_;
  std::map<int, BlockId> blocks_;
};

std::string to_string(AllocatorEvent const& event) {
  std::ostringstream text;
  text << maxbatch::to_string(event.action) << ' ' << event.size.count << " at 0x" << std::hex << event.address
       << " stream 0x" << event.stream << std::dec << " pool " << event.pool.second;
  return text.str();
}

/// Puts what stands in a row into one and the same order, if `is_free_to_move` holds for all of it. Says whether that
/// changed anything.
template <typename IsFreeToMove, typename IsBefore>
bool sort_runs(std::vector<AllocatorEvent>& events, IsFreeToMove is_free_to_move, IsBefore is_before) {
  auto const before = events;
  for (auto begin = events.begin(); begin != events.end();) {
    begin = std::find_if(begin, events.end(), is_free_to_move);
    auto const end = std::find_if_not(begin, events.end(), is_free_to_move);
    std::stable_sort(begin, end, is_before);
    begin = end;
  }
  return before != events;
}

/// In which order events of several streams finish is up to a hash of LibTorch's.
bool sort_completions(std::vector<AllocatorEvent>& events) {
  return sort_runs(
      events, [](AllocatorEvent const& event) { return event.action == AllocatorAction::free_completed; },
      [](AllocatorEvent const& a, AllocatorEvent const& b) { return a.address < b.address; });
}

/// In which order several private pools give back what they hold is, too.
void sort_private_pools(std::vector<AllocatorEvent>& events) {
  sort_runs(
      events,
      [](AllocatorEvent const& event) {
        return event.action == AllocatorAction::segment_free && !event.pool.is_default();
      },
      [](AllocatorEvent const& a, AllocatorEvent const& b) { return a.pool < b.pool; });
}

bool on_a_real_card() { return std::getenv("MAXBATCH_CARD") == nullptr; }

std::string difference_of_events(std::vector<AllocatorEvent> real, std::vector<AllocatorEvent> ours,
                                 bool& order_differed) {
  if (real != ours) {
    auto const changed = sort_completions(real);
    order_differed = sort_completions(ours) || changed || order_differed;
    sort_private_pools(real);
    sort_private_pools(ours);
  }
  for (std::size_t i = 0; i < std::max(real.size(), ours.size()); ++i) {
    if (i == real.size()) { return "an event too many: " + to_string(ours[i]); }
    if (i == ours.size()) { return "an event is missing: " + to_string(real[i]); }
    // Others may take and return memory of a real card meanwhile.
    if (real[i].action == AllocatorAction::oom && on_a_real_card()) { ours[i].address = real[i].address; }
    if (real[i] != ours[i]) { return to_string(ours[i]) + ", and LibTorch: " + to_string(real[i]); }
  }
  return "";
}

class StatisticsComparison {
 public:
  explicit StatisticsComparison(bool order_differed) : order_differed_(order_differed) {}

  std::string difference(AllocatorStatistics const& real, AllocatorStatistics const& ours) {
    pools("allocation", real.allocation, ours.allocation);
    pools("segment", real.segment, ours.segment);
    pools("active", real.active, ours.active);
    pools("allocated_bytes", real.allocated_bytes, ours.allocated_bytes);
    pools("reserved_bytes", real.reserved_bytes, ours.reserved_bytes);
    pools("active_bytes", real.active_bytes, ours.active_bytes);
    pools("requested_bytes", real.requested_bytes, ours.requested_bytes);
    pools("inactive_split", real.inactive_split, ours.inactive_split, order_differed_);
    pools("inactive_split_bytes", real.inactive_split_bytes, ours.inactive_split_bytes, order_differed_);
    statistic("oversize_allocations", real.oversize_allocations, ours.oversize_allocations);
    statistic("oversize_segments", real.oversize_segments, ours.oversize_segments);
    number("num_alloc_retries", real.num_alloc_retries, ours.num_alloc_retries);
    number("num_ooms", real.num_ooms, ours.num_ooms);
    number("num_sync_all_streams", real.num_sync_all_streams, ours.num_sync_all_streams);
    number("num_device_alloc", real.num_device_alloc, ours.num_device_alloc);
    number("num_device_free", real.num_device_free, ours.num_device_free);
    return text_.str();
  }

 private:
  void number(std::string const& name, std::int64_t real, std::int64_t ours) {
    if (real != ours) { text_ << name << " is " << ours << ", and LibTorch's " << real << "; "; }
  }
  void statistic(std::string const& name, AllocatorStatistic const& real, AllocatorStatistic const& ours,
                 bool only_current = false) {
    number(name + ".current", real.current, ours.current);
    if (only_current) { return; }
    number(name + ".peak", real.peak, ours.peak);
    number(name + ".allocated", real.allocated, ours.allocated);
    number(name + ".freed", real.freed, ours.freed);
  }
  void pools(std::string const& name, AllocatorPoolStatistic const& real, AllocatorPoolStatistic const& ours,
             bool only_current = false) {
    statistic(name, real.aggregate, ours.aggregate, only_current);
    statistic(name + ".small_pool", real.small_pool, ours.small_pool, only_current);
    statistic(name + ".large_pool", real.large_pool, ours.large_pool, only_current);
  }

  bool order_differed_;
  std::ostringstream text_;
};

}  // namespace

std::string compare(AllocatorProgram const& program, ComparisonTotals* totals) {
  auto const real = run_on_real(program);
  SimulatedRun ours(program, real);
  bool order_differed = false;
  std::int64_t calls = 0;
  for (auto const& step : real.steps) {
    ++calls;
    auto const where = "call " + std::to_string(calls) + ", " + to_string(step.call) + ": ";
    auto const served = ours.make(step);
    auto& simulator = ours.simulator();
    auto const events = simulator.take_events();
    if (auto const text = difference_of_events(step.events, events, order_differed); !text.empty()) {
      return where + text;
    }
    if (served != step.served) {
      return where + (served ? "served, and LibTorch refused" : "refused, and LibTorch served");
    }
    auto const text = StatisticsComparison(order_differed).difference(step.statistics, simulator.statistics());
    if (!text.empty()) { return where + text; }
    if (simulator.addresses().diverged()) { return where + "something else was bought"; }
    if (calls % kBetweenChecks == 0 || &step == &real.steps.back()) {
      if (auto const broken = simulator.broken_invariant(); !broken.empty()) { return where + broken; }
    }
    if (totals != nullptr) { totals->events += static_cast<std::int64_t>(events.size()); }
  }
  if (totals != nullptr) {
    ++totals->programs;
    totals->calls += calls;
    for (auto const& step : real.steps) {
      totals->refusals += step.call.kind == Kind::allocate && !step.served ? 1 : 0;
    }
    if (!real.steps.empty()) { totals->retries += real.steps.back().statistics.num_alloc_retries; }
  }
  return "";
}

AllocatorProgram shrink(AllocatorProgram program) {
  for (auto part = program.calls.size() / 2; part > 0; part = part == 1 ? 0 : part / 2) {
    for (bool removed = true; removed;) {
      removed = false;
      for (std::size_t begin = 0; begin < program.calls.size();) {
        auto smaller = program;
        auto const end = std::min(begin + part, smaller.calls.size());
        smaller.calls.erase(smaller.calls.begin() + static_cast<std::ptrdiff_t>(begin),
                            smaller.calls.begin() + static_cast<std::ptrdiff_t>(end));
        if (!compare(smaller).empty()) {
          program = smaller;
          removed = true;
        } else {
          begin += part;
        }
      }
    }
  }
  return program;
}

}  // namespace maxbatch::test
