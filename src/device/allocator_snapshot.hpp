#pragma once

#include "block_layout.hpp"
#include <maxbatch/simulation/allocation_trace.hpp>

#include <c10/core/Device.h>

#include <vector>

namespace maxbatch::detail {

/// The segments of one device's caching allocator, with their blocks, private pools included. Streams and pools are
/// added to the tables of `trace`. Writes the event snapshot to whoever listens.  Synchronises: no.
std::vector<TraceSegment> allocator_segments(c10::DeviceIndex device, AllocationTrace& trace);

/// By which the allocator makes blocks of requests, as it is set now.
BlockLayout::Rules allocator_rules();

}  // namespace maxbatch::detail
