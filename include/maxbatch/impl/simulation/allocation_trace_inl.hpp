#pragma once

#include <maxbatch/simulation/allocation_trace.hpp>

#include <algorithm>
#include <array>
#include <limits>
#include <stdexcept>

namespace maxbatch {
namespace detail {
inline namespace MAXBATCH_ABI_NAMESPACE {

constexpr std::array<std::string_view, 10> kTraceActionNames = {
    "alloc", "free_requested", "free_completed", "segment_alloc", "segment_free", "segment_map", "segment_unmap",
    "oom",   "snapshot",       "user_defined"};

/// The place of `value` in `table`, which grows by it if need be.
template <typename Index, typename Value, typename Key>
Index index_in(std::vector<Value>& table, Key const& value, char const* what) {
  auto const found = std::find(table.begin(), table.end(), value);
  auto const place = static_cast<std::size_t>(found - table.begin());
  if (found != table.end()) { return static_cast<Index>(place); }
  if (place > std::numeric_limits<Index>::max()) {
    throw std::length_error("a trace holds at most " + std::to_string(std::numeric_limits<Index>::max()) + ' ' + what);
  }
  table.emplace_back(value);
  return static_cast<Index>(place);
}

}  // namespace MAXBATCH_ABI_NAMESPACE
}  // namespace detail

inline namespace MAXBATCH_ABI_NAMESPACE {

MAXBATCH_INLINE std::string_view to_string(TraceAction action) {
  return detail::kTraceActionNames.at(static_cast<std::size_t>(action));
}

MAXBATCH_INLINE std::optional<TraceAction> parse_trace_action(std::string_view text) {
  for (std::size_t i = 0; i < detail::kTraceActionNames.size(); ++i) {
    if (detail::kTraceActionNames[i] == text) { return static_cast<TraceAction>(i); }
  }
  return std::nullopt;
}

MAXBATCH_INLINE std::string_view to_string(TraceMark::Kind kind) {
  constexpr std::array<std::string_view, 5> names = {"statistics", "step_begin", "step_end", "phase_begin",
                                                     "phase_end"};
  return names.at(static_cast<std::size_t>(kind));
}

MAXBATCH_INLINE std::string_view to_string(TraceWorld world) {
  constexpr std::array<std::string_view, 5> names = {"unknown", "measured", "dry", "cpu", "simulated"};
  return names.at(static_cast<std::size_t>(world));
}

MAXBATCH_INLINE std::optional<std::int64_t> TraceMark::statistic(std::string_view name) const {
  for (auto const& known : statistics) {
    if (known.name == name) { return known.value; }
  }
  return std::nullopt;
}

MAXBATCH_INLINE std::uint16_t AllocationTrace::stream_index(StreamHandle handle) {
  return detail::index_in<std::uint16_t>(streams, handle, "streams");
}

MAXBATCH_INLINE std::uint32_t AllocationTrace::label_index(std::string_view text) {
  return detail::index_in<std::uint32_t>(labels, text, "labels");
}

MAXBATCH_INLINE std::uint8_t AllocationTrace::pool_index(PrivatePoolId id) {
  return detail::index_in<std::uint8_t>(pools, id, "private pools");
}

MAXBATCH_INLINE std::optional<std::int64_t> AllocationTrace::last_statistic(std::string_view name) const {
  for (auto mark = marks.rbegin(); mark != marks.rend(); ++mark) {
    if (auto const value = mark->statistic(name)) { return value; }
  }
  return std::nullopt;
}

MAXBATCH_INLINE bool operator==(AllocationTrace const& a, AllocationTrace const& b) {
  return a.events == b.events && a.marks == b.marks && a.streams == b.streams && a.labels == b.labels &&
         a.pools == b.pools && a.initial_segments == b.initial_segments && a.device_index == b.device_index &&
         a.device_name == b.device_name && a.total_memory == b.total_memory && a.limit == b.limit &&
         a.allocator_settings == b.allocator_settings && a.world == b.world;
}

}  // namespace MAXBATCH_ABI_NAMESPACE
}  // namespace maxbatch
