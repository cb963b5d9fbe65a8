#pragma once

#include <maxbatch/bytes.hpp>
#include <maxbatch/config.hpp>
#include <maxbatch/simulation/allocation_program.hpp>
#include <maxbatch/simulation/allocation_trace.hpp>
#include <maxbatch/simulation/allocator_options.hpp>
#include <maxbatch/simulation/allocator_settings.hpp>
#include <maxbatch/simulation/device_address_space.hpp>
#include <maxbatch/simulation/driver_events.hpp>
#include <maxbatch/simulation/refused_request.hpp>

#include <cstdint>
#include <optional>

namespace maxbatch {
inline namespace MAXBATCH_ABI_NAMESPACE {

struct ProgramRunOptions {
  AllocatorSettings settings;
  SimulatedDevice device;
  std::optional<Bytes> limit;           // on reserved bytes; none: what the device has
  bool workspaces_are_elastic = false;  // a refused workspace is done without, and the program goes on
  DriverPlacement placement;
};

/// What became of a program under a limit.
struct ProgramRun {
  bool fits = false;
  Bytes reserved_peak;
  Bytes allocated_peak;
  std::int64_t segments_bought = 0;
  std::int64_t retries = 0;
  std::int64_t refused_workspaces = 0;          // that the program went on without
  std::optional<std::uint32_t> failed_request;  // into AllocationProgram::requests
  std::optional<RefusedRequest> refused;        // the last one, survived or not
};

/// Where the driver acts on its own. The set-up is over at the first mark, or else where the first request depends on the
/// batch size (`first_sample_request`); cuBLAS's workspaces are requests of 32 MiB or 8,519,680 bytes that are never freed.
DriverEvents driver_events_of(AllocationProgram const& program, std::optional<std::uint32_t> first_sample_request = {});

/// Runs it through the allocator's simulator, with modelled addresses.
ProgramRun run_program(AllocationProgram const& program, DriverEvents const& driver_events,
                       ProgramRunOptions const& options = {});

/// The same, written down as a recording: with the addresses and purchases that the simulator chose, statistics at the
/// marks, and a refused request at the end where it did not fit.
AllocationTrace trace_of_run(AllocationProgram const& program, DriverEvents const& driver_events,
                             ProgramRunOptions const& options = {});

}  // namespace MAXBATCH_ABI_NAMESPACE
}  // namespace maxbatch

#if !defined(MAXBATCH_COMPILED_LIB)
#include <maxbatch/impl/simulation/program_run_inl.hpp>
#endif
