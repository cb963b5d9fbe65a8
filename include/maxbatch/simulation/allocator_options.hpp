#pragma once

#include <maxbatch/bytes.hpp>
#include <maxbatch/config.hpp>
#include <maxbatch/simulation/allocator_settings.hpp>

#include <cstdint>

namespace maxbatch {
inline namespace MAXBATCH_ABI_NAMESPACE {

/// The device that memory is bought from.
struct SimulatedDevice {
  /// cudaDeviceProp::totalGlobalMem, at most 1 TiB. Fractions are of it, and an expandable segment reserves 9/8 of it.
  Bytes total_memory{std::int64_t{150109880320}};
  /// What the context and others hold of it: the driver refuses what goes beyond the rest.
  Bytes outside_memory;
};

/// When the events are done that a freed block waits for if another stream used it.
enum class EventTiming {
  immediate,     // by the next request
  synchronised,  // when `synchronise` is called, or a flush waits for them
};

struct AllocatorOptions {
  AllocatorSettings settings;
  SimulatedDevice device;
  EventTiming event_timing = EventTiming::immediate;
  bool record_events = false;
};

}  // namespace MAXBATCH_ABI_NAMESPACE
}  // namespace maxbatch
