#pragma once

#include <maxbatch/config.hpp>
#include <maxbatch/simulation/allocation_trace.hpp>
#include <maxbatch/simulation/allocator_settings.hpp>
#include <maxbatch/simulation/driver_events.hpp>
#include <maxbatch/simulation/replay_program.hpp>

#include <optional>
#include <string>

namespace maxbatch {
inline namespace MAXBATCH_ABI_NAMESPACE {

/// Throws: TraceError for a trace that contradicts itself or does not tell where it starts, InvalidAllocatorSettings for
/// settings that cannot be followed.
/// `settings`: others than those recorded.
ReplayProgram make_replay_program(AllocationTrace const& trace, std::string const& name,
                                  std::optional<AllocatorSettings> const& settings = std::nullopt);

/// Where the driver acts in a recording of a training process: after the set-up, and at the requests for cuBLAS's
/// workspaces (of 32 MiB or 8,519,680 bytes, after the set-up, and never freed).
DriverEvents driver_events_of(AllocationTrace const& trace);

}  // namespace MAXBATCH_ABI_NAMESPACE
}  // namespace maxbatch

#if !defined(MAXBATCH_COMPILED_LIB)
#include <maxbatch/impl/simulation/replay_preparation_inl.hpp>
#endif
