#pragma once

#include <maxbatch/bytes.hpp>
#include <maxbatch/config.hpp>
#include <maxbatch/simulation/allocator_statistics.hpp>
#include <maxbatch/simulation/caching_allocator_simulator.hpp>
#include <maxbatch/simulation/device_address_space.hpp>
#include <maxbatch/simulation/refused_request.hpp>
#include <maxbatch/simulation/replay_program.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace maxbatch {
inline namespace MAXBATCH_ABI_NAMESPACE {

struct ReplayOptions {
  /// What the allocator may reserve, as the memory fraction says it. None: what the device has.
  std::optional<Bytes> limit;
  /// None: larger than anything that is asked of it.
  std::optional<SimulatedDevice> device;
  /// Places by the driver's rule, with `placement`, instead of the recorded ones. Where none were recorded it is so anyway.
  bool modelled_addresses = false;
  DriverPlacement placement;
};

/// Where reserved bytes that serve no request are, at one moment.
struct Fragmentation {
  Bytes reserved;
  Bytes requested;        // of blocks in use
  Bytes rounding;         // of blocks in use beyond what was requested
  Bytes split;            // free parts of segments that are in use: no flush gives them back
  Bytes unused_segments;  // free as a whole
  Bytes largest_free;     // the largest free block
  std::int64_t segments = 0;
};

struct ReplayOutcome {
  bool fits = false;
  AllocatorStatistics statistics;         // at the end, or at the refusal; peaks of the recorded part
  std::int64_t segments_bought = 0;       // and what was there at the beginning; of expandable ones each mapping counts
  std::optional<RefusedRequest> refused;  // what did not fit; none though it does not fit: what existed before
  std::optional<std::uint32_t> refused_event;  // of the trace
  std::int64_t survived_refusals = 0;          // of requests that were refused while recording, too
  /// The most that a limit has to allow for nothing to change: with expandable segments it is asked about more than is
  /// mapped. Never less than the peak of reserved bytes.
  Bytes largest_claim;
  std::size_t peak_operation = 0;  // where reserved bytes reached their peak first
  /// Other purchases than the recorded ones were made, so that not all addresses are recorded ones.
  bool left_recording = false;
  bool modelled_addresses = false;
};

/// Runs a program through the simulator, as often as one likes.
/// Threads: `run` and the like are safe to call at once.
class TraceReplay {
 public:
  TraceReplay(ReplayProgram program, ReplayOptions const& options);

  ReplayOutcome run() const { return run(options_.limit); }
  /// Under another limit.
  ReplayOutcome run(std::optional<Bytes> limit) const;
  /// At the peak of `outcome`, which is of the same limit.
  Fragmentation fragmentation(ReplayOutcome const& outcome, std::optional<Bytes> limit) const;

  ReplayProgram const& program() const { return program_; }

 private:
  struct Machine;
  /// Nothing: what existed before does not fit.
  std::optional<Machine> begin(std::optional<Bytes> limit) const;
  bool models_addresses() const;

  ReplayProgram program_;
  ReplayOptions options_;
  CachingAllocatorSimulator start_;  // after the prologue
  std::vector<BlockId> start_blocks_;
  std::int64_t start_purchases_ = 0;
  bool started_ = false;  // the prologue went through
};

/// Under which limits a program fits. Not one boundary: a flush at another moment leaves other gaps, so that less memory
/// may do where more does not.
struct FittingLimits {
  Bytes unlimited_peak;              // of reserved bytes
  std::optional<Bytes> smallest;     // on the grid: it fits under this and every larger limit; none: not even unlimited
  std::vector<Bytes> isolated_fits;  // on the grid, ascending: smaller limits under which it fits as well
  std::int64_t runs = 0;             // of the program
};

/// Every multiple of 2 MiB is decided, up to where the limit is not felt: the unlimited peak, or a little above with
/// expandable segments. Limits between which the allocator decides nothing
/// differently are decided at once.
FittingLimits fitting_limits(TraceReplay const& replay);

}  // namespace MAXBATCH_ABI_NAMESPACE
}  // namespace maxbatch

#if !defined(MAXBATCH_COMPILED_LIB)
#include <maxbatch/impl/simulation/trace_replay_inl.hpp>
#endif
