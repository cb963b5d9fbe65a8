#pragma once

#include <maxbatch/impl/simulation/trace_source.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

// Note [Binary traces].
// 8 bytes of magic; version (4 bytes), number of traces (4), length of the rest (8), checksum of the rest (8: FNV-1a of
// 64 bits), little endian. Then the traces. Numbers in them are of 7 bits a byte, lowest first, the highest bit set where
// more follow; signed ones are folded first (0, -1, 1, -2, ...). A text is its length and its bytes; a table its length
// and its entries.
//   trace: device index, device name, total memory + 1 (0: unknown), limit + 1, settings, world,
//          streams, pools, labels, initial segments, marks, events
//   event: a byte of action (low 4 bits) and of what follows that is not as before (stream 0x10, label 0x20, pool 0x40,
//          time 0x80); then those, the time as the difference; the address as the difference to the last event's; the size
namespace maxbatch {
namespace detail {
inline namespace MAXBATCH_ABI_NAMESPACE {

/// Like PNG's: not text, and damaged by what turns line ends around.
constexpr std::string_view kBinaryTraceMagic = "\x89MBT\r\n\x1a\n";
constexpr std::uint32_t kBinaryTraceVersion = 1;
constexpr std::size_t kBinaryTraceHeader = 8 + 4 + 4 + 8 + 8;

constexpr std::uint8_t kEventActionMask = 0x0F;
constexpr std::uint8_t kEventHasStream = 0x10;
constexpr std::uint8_t kEventHasLabel = 0x20;
constexpr std::uint8_t kEventHasPool = 0x40;
constexpr std::uint8_t kEventHasTime = 0x80;

inline std::uint64_t checksum_of(std::string_view bytes) {
  std::uint64_t hash = 0xcbf29ce484222325ULL;
  for (auto const byte : bytes) { hash = (hash ^ static_cast<unsigned char>(byte)) * 0x100000001b3ULL; }
  return hash;
}

inline std::uint64_t folded(std::int64_t value) {
  return (static_cast<std::uint64_t>(value) << 1) ^ (value < 0 ? ~std::uint64_t{0} : 0);
}
inline std::int64_t unfolded(std::uint64_t value) {
  return static_cast<std::int64_t>((value >> 1) ^ ((value & 1) != 0 ? ~std::uint64_t{0} : 0));
}

class BinaryTraceWriter {
 public:
  std::string write(AllocationTrace const& trace) {
    number(static_cast<std::uint64_t>(trace.device_index));
    text(trace.device_name);
    amount(trace.total_memory);
    amount(trace.limit);
    text(trace.allocator_settings);
    number(static_cast<std::uint64_t>(trace.world));
    number(trace.streams.size());
    for (auto const stream : trace.streams) { number(stream); }
    number(trace.pools.size());
    for (auto const& pool : trace.pools) {
      number(pool.first);
      number(pool.second);
    }
    number(trace.labels.size());
    for (auto const& label : trace.labels) { text(label); }
    number(trace.initial_segments.size());
    for (auto const& segment : trace.initial_segments) { write_segment(segment); }
    number(trace.marks.size());
    for (auto const& mark : trace.marks) { write_mark(mark); }
    number(trace.events.size());
    for (auto const& event : trace.events) { write_event(event); }
    return framed();
  }

 private:
  void number(std::uint64_t value) {
    for (; value >= 0x80; value >>= 7) { bytes_ += static_cast<char>((value & 0x7F) | 0x80); }
    bytes_ += static_cast<char>(value);
  }
  void text(std::string_view value) {
    number(value.size());
    bytes_ += value;
  }
  void amount(std::optional<Bytes> value) { number(value ? static_cast<std::uint64_t>(value->count) + 1 : 0); }

  void write_segment(TraceSegment const& segment) {
    number(segment.address);
    number(static_cast<std::uint64_t>(segment.size));
    number(segment.stream);
    number(segment.pool);
    number((segment.small ? 1U : 0U) | (segment.expandable ? 2U : 0U));
    number(segment.blocks.size());
    for (auto const& block : segment.blocks) {
      number(static_cast<std::uint64_t>(block.state));
      number(static_cast<std::uint64_t>(block.size));
      number(static_cast<std::uint64_t>(block.requested_size));
    }
  }
  void write_mark(TraceMark const& mark) {
    number(mark.event);
    number(static_cast<std::uint64_t>(mark.kind));
    text(mark.label);
    number(mark.statistics.size());
    for (auto const& statistic : mark.statistics) {
      text(statistic.name);
      number(folded(statistic.value));
    }
  }
  void write_event(TraceEvent const& event) {
    auto first = static_cast<unsigned>(event.action);
    first |= event.stream != last_.stream ? kEventHasStream : 0U;
    first |= event.label != last_.label ? kEventHasLabel : 0U;
    first |= event.pool != last_.pool ? kEventHasPool : 0U;
    first |= event.time_us != last_.time_us ? kEventHasTime : 0U;
    bytes_ += static_cast<char>(first);
    if ((first & kEventHasStream) != 0) { number(event.stream); }
    if ((first & kEventHasLabel) != 0) { number(event.label); }
    if ((first & kEventHasPool) != 0) { number(event.pool); }
    if ((first & kEventHasTime) != 0) { difference(event.time_us, last_.time_us); }
    difference(static_cast<std::int64_t>(event.address), static_cast<std::int64_t>(last_.address));
    number(static_cast<std::uint64_t>(event.size));
    last_ = event;
  }
  void difference(std::int64_t value, std::int64_t last) {
    number(folded(static_cast<std::int64_t>(static_cast<std::uint64_t>(value) - static_cast<std::uint64_t>(last))));
  }

  std::string framed() const {
    std::string file(kBinaryTraceMagic);
    auto const fixed = [&](std::uint64_t value, int count) {
      for (int i = 0; i < count; ++i) { file += static_cast<char>((value >> (8 * i)) & 0xFF); }
    };
    fixed(kBinaryTraceVersion, 4);
    fixed(1, 4);
    fixed(bytes_.size(), 8);
    fixed(checksum_of(bytes_), 8);
    return file + bytes_;
  }

  std::string bytes_;
  TraceEvent last_;
};

class BinaryTraceReader {
 public:
  BinaryTraceReader(std::string_view content, std::string const& name) : content_(content), name_(name) {}

  std::vector<AllocationTrace> read() {
    at_ = kBinaryTraceMagic.size();
    auto const version = fixed(4);
    if (version != kBinaryTraceVersion) {
      fail("version " + std::to_string(version) + " of the binary format is not known (" +
           std::to_string(kBinaryTraceVersion) + " is)");
    }
    auto const count = fixed(4);
    auto const length = fixed(8);
    auto const checksum = fixed(8);
    if (length != content_.size() - at_) {
      fail(std::to_string(length) + " bytes are announced, and " + std::to_string(content_.size() - at_) +
           " are there");
    }
    if (checksum != checksum_of(content_.substr(at_))) { fail("the checksum does not agree: the file is damaged"); }
    if (count == 0) { fail("holds no traces"); }
    std::vector<AllocationTrace> traces;
    for (std::uint64_t i = 0; i < count; ++i) { traces.push_back(read_trace()); }
    if (at_ != content_.size()) { fail(std::to_string(content_.size() - at_) + " bytes are left over"); }
    return traces;
  }

 private:
  [[noreturn]] void fail(std::string const& what) const { fail_trace(name_, at_byte(at_), what); }

  std::uint64_t fixed(std::size_t count) {
    if (count > content_.size() - at_) { fail("the file ends too early"); }
    std::uint64_t value = 0;
    for (std::size_t i = count; i > 0; --i) {
      value = (value << 8) | static_cast<unsigned char>(content_[at_ + i - 1]);
    }
    at_ += count;
    return value;
  }
  std::uint8_t byte() { return static_cast<std::uint8_t>(fixed(1)); }
  std::uint64_t number() {
    std::uint64_t value = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
      std::uint64_t const part = byte();
      auto const bits = part & 0x7F;
      if (shift == 63 && bits > 1) { break; }
      value |= bits << shift;
      if ((part & 0x80) == 0) { return value; }
    }
    fail("a number of more than 64 bits");
  }
  std::uint64_t number_up_to(std::uint64_t largest, char const* what) {
    auto const value = number();
    if (value > largest) {
      fail(std::string(what) + ' ' + std::to_string(value) + ", and at most " + std::to_string(largest) + " can be");
    }
    return value;
  }
  /// Of things that take at least a byte each.
  std::size_t count(char const* what) {
    auto const value = number();
    if (value > content_.size() - at_) {
      fail(std::to_string(value) + ' ' + what + " are announced, and " + std::to_string(content_.size() - at_) +
           " bytes are left");
    }
    return static_cast<std::size_t>(value);
  }
  std::string text() {
    auto const length = count("bytes of text");
    std::string value(content_.substr(at_, length));
    at_ += length;
    return value;
  }
  std::int64_t size(DeviceAddress place) {
    TraceEvent event;
    event.address = place;
    event.size = static_cast<std::int64_t>(number_up_to(std::numeric_limits<std::int64_t>::max(), "size"));
    if (auto const* const wrong = wrong_with(event)) { fail(wrong); }
    return event.size;
  }
  std::optional<Bytes> amount() {
    auto const value = number_up_to(std::numeric_limits<std::int64_t>::max(), "amount");
    if (value == 0) { return std::nullopt; }
    return Bytes{static_cast<std::int64_t>(value - 1)};
  }

  AllocationTrace read_trace() {
    AllocationTrace trace;
    trace.device_index = static_cast<int>(number_up_to(kMostDevices, "device"));
    trace.device_name = text();
    trace.total_memory = amount();
    trace.limit = amount();
    trace.allocator_settings = text();
    trace.world = static_cast<TraceWorld>(number_up_to(static_cast<std::uint64_t>(TraceWorld::simulated), "world"));
    read_tables(trace);
    for (auto left = count("segments"); left > 0; --left) { trace.initial_segments.push_back(read_segment(trace)); }
    for (auto left = count("marks"); left > 0; --left) { trace.marks.push_back(read_mark(trace)); }
    read_events(trace);
    if (!trace.marks.empty() && trace.marks.back().event > trace.events.size()) {
      fail("a mark stands behind the last event");
    }
    return trace;
  }

  void read_tables(AllocationTrace& trace) {
    trace.streams.clear();
    for (auto left = count("streams"); left > 0; --left) { trace.streams.push_back(number()); }
    trace.pools.clear();
    for (auto left = count("pools"); left > 0; --left) {
      auto const first = number();
      trace.pools.push_back({first, number()});
    }
    trace.labels.clear();
    for (auto left = count("labels"); left > 0; --left) { trace.labels.push_back(text()); }
    auto const begins_right = !trace.streams.empty() && !trace.pools.empty() && trace.pools[0] == PrivatePoolId() &&
                              !trace.labels.empty() && trace.labels[0].empty();
    if (!begins_right || trace.streams.size() > kMostStreams || trace.pools.size() > kMostPools) {
      fail("the tables of streams, pools and labels are not as they must be");
    }
  }

  TraceSegment read_segment(AllocationTrace const& trace) {
    TraceSegment segment;
    segment.address = number();
    segment.size = size(segment.address);
    segment.stream = static_cast<std::uint16_t>(number_up_to(trace.streams.size() - 1, "stream"));
    segment.pool = static_cast<std::uint8_t>(number_up_to(trace.pools.size() - 1, "pool"));
    auto const flags = number_up_to(3, "segment flags");
    segment.small = (flags & 1) != 0;
    segment.expandable = (flags & 2) != 0;
    auto at = segment.address;
    for (auto left = count("blocks"); left > 0; --left) {
      TraceBlock block;
      block.address = at;
      block.state = static_cast<TraceBlock::State>(
          number_up_to(static_cast<std::uint64_t>(TraceBlock::State::pending_free), "block state"));
      block.size = size(at);
      block.requested_size = size(at);
      at += static_cast<std::uint64_t>(block.size);
      if (at > segment.address + static_cast<std::uint64_t>(segment.size)) {
        fail("a segment is smaller than its blocks");
      }
      segment.blocks.push_back(block);
    }
    return segment;
  }

  TraceMark read_mark(AllocationTrace const& trace) {
    TraceMark mark;
    mark.event = number();
    if (!trace.marks.empty() && mark.event < trace.marks.back().event) { fail("the marks are not in order"); }
    mark.kind = static_cast<TraceMark::Kind>(
        number_up_to(static_cast<std::uint64_t>(TraceMark::Kind::phase_end), "kind of mark"));
    mark.label = text();
    for (auto left = count("statistics"); left > 0; --left) {
      auto name = text();
      mark.statistics.push_back({std::move(name), unfolded(number())});
    }
    return mark;
  }

  void read_events(AllocationTrace& trace) {
    auto const events = count("events");
    constexpr std::size_t smallest_event = 3;
    trace.events.reserve(std::min(events, (content_.size() - at_) / smallest_event + 1));
    TraceEvent event;
    for (std::size_t i = 0; i < events; ++i) {
      auto const first = byte();
      auto const action = static_cast<unsigned>(first & kEventActionMask);
      if (action > static_cast<unsigned>(TraceAction::user_defined)) {
        fail("action " + std::to_string(action) + " is not known");
      }
      event.action = static_cast<TraceAction>(action);
      if ((first & kEventHasStream) != 0) {
        event.stream = static_cast<std::uint16_t>(number_up_to(trace.streams.size() - 1, "stream"));
      }
      if ((first & kEventHasLabel) != 0) {
        event.label = static_cast<std::uint32_t>(number_up_to(trace.labels.size() - 1, "label"));
      }
      if ((first & kEventHasPool) != 0) {
        event.pool = static_cast<std::uint8_t>(number_up_to(trace.pools.size() - 1, "pool"));
      }
      if ((first & kEventHasTime) != 0) {
        event.time_us = static_cast<std::int64_t>(moved(static_cast<std::uint64_t>(event.time_us)));
      }
      event.address = moved(event.address);
      event.size = static_cast<std::int64_t>(number_up_to(std::numeric_limits<std::int64_t>::max(), "size"));
      if (auto const* const wrong = wrong_with(event)) { fail(wrong); }
      trace.events.push_back(event);
    }
  }
  std::uint64_t moved(std::uint64_t last) { return last + static_cast<std::uint64_t>(unfolded(number())); }

  static constexpr std::uint64_t kMostDevices = 1023;
  static constexpr std::size_t kMostStreams = std::size_t{std::numeric_limits<std::uint16_t>::max()} + 1;
  static constexpr std::size_t kMostPools = std::size_t{std::numeric_limits<std::uint8_t>::max()} + 1;

  std::string_view content_;
  std::string const& name_;
  std::size_t at_ = 0;
};

}  // namespace MAXBATCH_ABI_NAMESPACE
}  // namespace detail
}  // namespace maxbatch
