#pragma once

#include <maxbatch/simulation/allocation_trace.hpp>
#include <maxbatch/simulation/trace_error.hpp>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

namespace maxbatch {
namespace detail {
inline namespace MAXBATCH_ABI_NAMESPACE {

/// More than any device has; sums of as many sizes as a file can hold stay far from overflow in 128 bits, and sums that
/// must fit into 64 are checked where they are made.
constexpr std::int64_t kLargestTraceSize = std::int64_t{1} << 50;

/// The file that a label stands under in the stacks of a snapshot that we wrote.
constexpr std::string_view kLabelFile = "maxbatch label";

/// `text` as it may stand in a message: short, and without what would disturb a terminal.
inline std::string printable(std::string_view text) {
  constexpr std::size_t longest = 60;
  std::string shown;
  for (auto const c : text.substr(0, longest)) { shown += c >= ' ' && c <= '~' ? c : '?'; }
  return text.size() > longest ? shown + "..." : shown;
}

inline std::string at_byte(std::size_t offset) { return "byte " + std::to_string(offset); }

[[noreturn]] inline void fail_trace(std::string const& name, std::string const& place, std::string const& what) {
  throw TraceError(name + ": " + (place.empty() ? what : place + ": " + what));
}

/// What is wrong with an event of its own; null if nothing is.
inline char const* wrong_with(TraceEvent const& event) {
  if (event.size < 0) { return "a negative size"; }
  if (event.size > kLargestTraceSize) { return "a size above 1 PiB"; }
  auto const is_place = event.action != TraceAction::oom && event.action != TraceAction::snapshot &&
                        event.action != TraceAction::user_defined;
  if (is_place && event.address > std::numeric_limits<std::uint64_t>::max() - static_cast<std::uint64_t>(event.size)) {
    return "an address range that ends beyond 64 bits";
  }
  return nullptr;
}

/// The tables of a trace while it is read: a hash map beside each, since a file may hold many names.
class TraceTables {
 public:
  explicit TraceTables(AllocationTrace& trace) : trace_(trace) {
    for (std::size_t i = 0; i < trace.streams.size(); ++i) { streams_.emplace(trace.streams[i], i); }
    for (std::size_t i = 0; i < trace.labels.size(); ++i) { labels_.emplace(trace.labels[i], i); }
  }

  /// None: the table is full.
  std::optional<std::uint16_t> stream(std::uint64_t handle) {
    auto const [found, is_new] = streams_.emplace(handle, trace_.streams.size());
    if (!is_new) { return static_cast<std::uint16_t>(found->second); }
    if (found->second > std::numeric_limits<std::uint16_t>::max()) { return std::nullopt; }
    trace_.streams.push_back(handle);
    return static_cast<std::uint16_t>(found->second);
  }
  std::uint32_t label(std::string_view text) {
    auto const [found, is_new] = labels_.emplace(text, trace_.labels.size());
    if (is_new) { trace_.labels.emplace_back(text); }
    return static_cast<std::uint32_t>(found->second);
  }

 private:
  AllocationTrace& trace_;
  std::unordered_map<std::uint64_t, std::size_t> streams_;
  std::unordered_map<std::string, std::size_t> labels_;
};

}  // namespace MAXBATCH_ABI_NAMESPACE
}  // namespace detail
}  // namespace maxbatch
