#pragma once

#include <maxbatch/impl/simulation/trace_source.hpp>
#include <maxbatch/impl/simulation/trace_state.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace maxbatch {
namespace detail {
inline namespace MAXBATCH_ABI_NAMESPACE {

/// Instructions of pickle protocol 4 for plain data, of those that PyTorch's viewer knows: it has a pickle machine of its
/// own, which takes a number of more than 8 bytes for something that cannot be added to others, and passes the items of a
/// list as arguments of a call. Texts are written once and then taken from the memo.
class PickleWriter {
 public:
  PickleWriter() { bytes_ = "\x80\x04"; }

  /// `write_item(i)` for each of them.
  template <typename WriteItem>
  void list(std::size_t count, WriteItem const& write_item) {
    constexpr std::size_t at_once = 1000;
    bytes_ += ']';
    for (std::size_t i = 0; i < count; ++i) {
      if (i % at_once == 0) { bytes_ += '('; }
      write_item(i);
      if ((i + 1) % at_once == 0 || i + 1 == count) { bytes_ += 'e'; }
    }
  }
  void begin_dict() { bytes_ += "}("; }
  void end_dict() { bytes_ += 'u'; }
  void boolean(bool value) { bytes_ += value ? '\x88' : '\x89'; }
  void pair(std::uint64_t first, std::uint64_t second) {
    integer(first);
    integer(second);
    bytes_ += '\x86';
  }
  void integer(std::int64_t value) {
    if (value >= 0) { return integer(static_cast<std::uint64_t>(value)); }
    long_integer(static_cast<std::uint64_t>(value), 8);
  }
  void integer(std::uint64_t value) {
    if (value <= 0xFF) {
      bytes_ += 'K';
      return little_endian(value, 1);
    }
    if (value <= 0xFFFF) {
      bytes_ += 'M';
      return little_endian(value, 2);
    }
    // Two's complement: the highest bit is the sign.
    int count = 3;
    while (count < 8 && (value >> (8 * count - 1)) != 0) { ++count; }
    if ((value >> 63) == 0) { return long_integer(value, count); }
    long_integer(value, 8, /*and_zero=*/true);
  }
  void text(std::string_view value) {
    auto const [known, is_new] = memo_.emplace(value, memo_.size());
    if (!is_new) { return recall(known->second); }
    bytes_ += 'X';
    little_endian(value.size(), 4);
    bytes_ += value;
    bytes_ += '\x94';
  }
  void field(std::string_view key, std::string_view value) {
    text(key);
    text(value);
  }
  void field(std::string_view key, std::int64_t value) {
    text(key);
    integer(value);
  }
  void field(std::string_view key, std::uint64_t value) {
    text(key);
    integer(value);
  }

  std::string finish() {
    bytes_ += '.';
    return std::move(bytes_);
  }

 private:
  void long_integer(std::uint64_t value, int count, bool and_zero = false) {
    bytes_ += '\x8a';
    bytes_ += static_cast<char>(count + (and_zero ? 1 : 0));
    little_endian(value, count);
    if (and_zero) { bytes_ += '\0'; }
  }
  void little_endian(std::uint64_t value, int count) {
    for (int i = 0; i < count; ++i) {
      bytes_ += static_cast<char>(value & 0xFF);
      value >>= 8;
    }
  }
  void recall(std::size_t index) {
    bytes_ += index <= 0xFF ? 'h' : 'j';
    little_endian(index, index <= 0xFF ? 1 : 4);
  }

  std::string bytes_;
  std::unordered_map<std::string, std::size_t> memo_;
};

/// What torch.cuda.memory._dump_snapshot() would have written of the same history, at its end.
class MemorySnapshotWriter {
 public:
  explicit MemorySnapshotWriter(AllocationTrace const& trace)
      : trace_(trace), has_times_(std::any_of(trace.events.begin(), trace.events.end(), [](TraceEvent const& event) {
          return event.time_us != 0;
        })) {}

  std::string write() {
    pickle_.begin_dict();
    write_segments();
    write_events();
    pickle_.text("allocator_settings");
    pickle_.begin_dict();
    pickle_.field("PYTORCH_CUDA_ALLOC_CONF", trace_.allocator_settings);
    pickle_.end_dict();
    write_annotations();
    pickle_.end_dict();
    return pickle_.finish();
  }

 private:
  /// The allocator says of each block that it may go before it is gone, and a recording may have left that out.
  struct Written {
    std::size_t event = 0;
    bool as_request = false;
  };

  /// The viewer sorts by time; where there is none, the number of the event will do.
  std::int64_t time_of(std::size_t event) const {
    auto const known = has_times_ && event < trace_.events.size();
    return known ? trace_.events[event].time_us : static_cast<std::int64_t>(event) + 1;
  }

  void write_segments() {
    TraceState state;
    for (auto const& segment : trace_.initial_segments) { state.add(segment); }
    for (std::size_t i = 0; i < trace_.events.size(); ++i) {
      auto const& event = trace_.events[i];
      if (event.action == TraceAction::free_completed && !state.is_pending(event.address)) {
        written_.push_back({i, /*as_request=*/true});
      }
      written_.push_back({i, /*as_request=*/false});
      if (auto const* const wrong = state.step(event)) {
        throw TraceError("the trace contradicts itself at event " + std::to_string(i) + " (" +
                         std::string(to_string(event.action)) + "): " + wrong);
      }
    }
    auto const segments = state.segments();
    pickle_.text("segments");
    pickle_.list(segments.size(), [&](std::size_t i) { write_segment(segments[i]); });
  }

  void write_segment(TraceSegment const& segment) {
    std::int64_t allocated = 0;
    std::int64_t active = 0;
    std::int64_t requested = 0;
    for (auto const& block : segment.blocks) {
      if (block.state == TraceBlock::State::inactive) { continue; }
      active += block.size;
      requested += block.requested_size;
      if (block.state == TraceBlock::State::allocated) { allocated += block.size; }
    }
    pickle_.begin_dict();
    pickle_.field("device", std::int64_t{trace_.device_index});
    pickle_.field("address", segment.address);
    pickle_.field("total_size", segment.size);
    pickle_.field("allocated_size", allocated);
    pickle_.field("active_size", active);
    pickle_.field("requested_size", requested);
    pickle_.field("stream", trace_.streams.at(segment.stream));
    pickle_.field("segment_type", segment.small ? "small" : "large");
    pickle_.text("segment_pool_id");
    auto const& pool = trace_.pools.at(segment.pool);
    pickle_.pair(pool.first, pool.second);
    pickle_.text("is_expandable");
    pickle_.boolean(segment.expandable);
    write_frames(0);
    pickle_.text("blocks");
    pickle_.list(segment.blocks.size(), [&](std::size_t i) { write_block(segment.blocks[i]); });
    pickle_.end_dict();
  }

  void write_block(TraceBlock const& block) {
    pickle_.begin_dict();
    pickle_.field("address", block.address);
    pickle_.field("size", block.size);
    pickle_.field("requested_size", block.requested_size);
    pickle_.field("state", block.state == TraceBlock::State::allocated      ? "active_allocated"
                           : block.state == TraceBlock::State::pending_free ? "active_pending_free"
                                                                            : "inactive");
    write_frames(0);
    pickle_.end_dict();
  }

  void write_frames(std::uint32_t label) {
    pickle_.text("frames");
    pickle_.list(label == 0 ? 0 : 1, [&](std::size_t) {
      pickle_.begin_dict();
      pickle_.field("name", trace_.labels.at(label));
      pickle_.field("filename", kLabelFile);
      pickle_.field("line", std::int64_t{0});
      pickle_.end_dict();
    });
  }

  void write_events() {
    pickle_.text("device_traces");
    auto const device = static_cast<std::size_t>(trace_.device_index);
    pickle_.list(device + 1, [&](std::size_t i) {
      pickle_.list(i == device ? written_.size() : 0,
                   [&](std::size_t n) { write_event(trace_.events[written_[n].event], written_[n]); });
    });
  }

  void write_event(TraceEvent const& event, Written written) {
    auto const time_us = time_of(written.event);
    pickle_.begin_dict();
    pickle_.field("action", written.as_request ? "free_requested" : to_string(event.action));
    pickle_.field(event.action == TraceAction::oom ? "device_free" : "addr", event.address);
    pickle_.field("size", event.size);
    pickle_.field("stream", trace_.streams.at(event.stream));
    pickle_.field("time_us", time_us);
    if (event.label != 0) { write_frames(event.label); }
    pickle_.end_dict();
  }

  /// Phases and steps as ranges that somebody named.
  void write_annotations() {
    std::vector<TraceMark const*> ranges;
    for (auto const& mark : trace_.marks) {
      if (mark.kind != TraceMark::Kind::statistics) { ranges.push_back(&mark); }
    }
    pickle_.text("external_annotations");
    pickle_.list(ranges.size(), [&](std::size_t i) { write_annotation(*ranges[i]); });
  }

  void write_annotation(TraceMark const& mark) {
    using Kind = TraceMark::Kind;
    auto const begins = mark.kind == Kind::step_begin || mark.kind == Kind::phase_begin;
    auto const is_step = mark.kind == Kind::step_begin || mark.kind == Kind::step_end;
    auto const before = static_cast<std::size_t>(mark.event);
    pickle_.begin_dict();
    pickle_.field("stage", begins ? "START" : "END");
    pickle_.field("name", is_step ? "step " + mark.label : mark.label);
    pickle_.field("device", std::int64_t{trace_.device_index});
    pickle_.field("time_us", time_of(before == 0 ? 0 : before - 1));
    pickle_.end_dict();
  }

  AllocationTrace const& trace_;
  bool has_times_;
  std::vector<Written> written_;
  PickleWriter pickle_;
};

}  // namespace MAXBATCH_ABI_NAMESPACE
}  // namespace detail
}  // namespace maxbatch
