#pragma once

#include <maxbatch/impl/simulation/pickle_reader.hpp>
#include <maxbatch/impl/simulation/trace_source.hpp>
#include <maxbatch/impl/simulation/trace_state.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

namespace maxbatch {
namespace detail {
inline namespace MAXBATCH_ABI_NAMESPACE {

/// The dict that torch.cuda.memory._dump_snapshot() pickles:
///   device_traces  a list for each device, of a dict for each event: action, addr (oom: device_free), size, stream, and
///                  perhaps time_us and frames
///   segments       what there is at the end: device, address, total_size, stream, segment_type, segment_pool_id,
///                  is_expandable, blocks (address, size, requested_size, state)
///   allocator_settings, external_annotations
class MemorySnapshotReader {
 public:
  MemorySnapshotReader(PickleDocument const& document, std::string const& name, std::size_t content_size)
      : document_(document), name_(name), work_left_(content_size) {}

  std::vector<AllocationTrace> read() {
    auto const& root = document_.root;
    if (document_.find(root, "ev") != nullptr && document_.find(root, "marks") != nullptr) {
      return {event_tuples(root)};
    }
    if (root.kind() == Kind::list) {
      fail(
          "holds segments without a history (torch.cuda.memory_snapshot()); what is needed is "
          "torch.cuda.memory._dump_snapshot() after torch.cuda.memory._record_memory_history()");
    }
    if (root.kind() != Kind::dict) {
      fail(std::string("holds ") + root.kind_name() + ", and a memory snapshot is a dict");
    }
    auto const& devices = items(require(root, "device_traces", "the snapshot"), Kind::list, "device_traces");
    read_segments(root);
    std::vector<AllocationTrace> traces;
    for (std::size_t device = 0; device < devices.size(); ++device) {
      spend(1);
      auto const& events = items(devices[device], Kind::list, "a device's trace");
      if (events.empty()) { continue; }
      traces.push_back(device_trace(root, device, events));
    }
    if (traces.empty()) {
      fail("holds no history: call torch.cuda.memory._record_memory_history() before what is to be recorded");
    }
    return traces;
  }

 private:
  using Kind = PickleValue::Kind;
  using Values = std::vector<PickleValue>;

  [[noreturn]] void fail(std::string const& what) const { fail_trace(name_, "", what); }

  /// Each piece of work is paid with a byte of the file: the same list may stand in many places, at two bytes each.
  void spend(std::size_t count) {
    if (count > work_left_) { fail("repeats the same objects many times over: no memory snapshot does"); }
    work_left_ -= count;
  }

  void spend_on(PickleValue const& value) { spend(1 + (value.is_container() ? document_.items(value).size() : 0)); }

  // ---- Fields. What is spoken of is a text, or a function that makes one if need be.
  static std::string const& said(std::string const& what) { return what; }
  template <typename What>
  static std::string said(What const& what) {
    return what();
  }

  Values const& items(PickleValue const& value, Kind kind, std::string const& what) const {
    auto const is_sequence = value.kind() == Kind::list || value.kind() == Kind::tuple;
    if (kind == Kind::list ? !is_sequence : value.kind() != kind) {
      fail(what + " is " + value.kind_name() + ", not " + PickleValue::container(kind, 0).kind_name());
    }
    return document_.items(value);
  }
  PickleValue const& require(PickleValue const& dict, char const* key, std::string const& what) const {
    if (dict.kind() != Kind::dict) { fail(what + " is " + dict.kind_name() + ", not a dict"); }
    auto const* const found = document_.find(dict, key);
    if (found == nullptr) { fail(what + " has no '" + key + "'"); }
    return *found;
  }
  template <typename What>
  std::int64_t integer(PickleValue const& value, char const* key, What const& what) const {
    auto const number = value.as_integer();
    if (!number) { fail(said(what) + ": '" + key + "' is " + value.kind_name() + ", not an int of up to 63 bits"); }
    return *number;
  }
  template <typename What>
  std::uint64_t address(PickleValue const& value, char const* key, What const& what) const {
    auto const number = value.as_unsigned();
    if (!number) { fail(said(what) + ": '" + key + "' is " + value.kind_name() + ", not an int of 0 to 64 bits"); }
    return *number;
  }
  template <typename What>
  std::string_view text(PickleValue const& value, char const* key, What const& what) const {
    if (!value.is_text()) { fail(said(what) + ": '" + key + "' is " + value.kind_name() + ", not a str"); }
    return value.as_text();
  }
  template <typename What>
  std::uint16_t stream(TraceTables& tables, PickleValue const& value, What const& what) const {
    auto const index = tables.stream(address(value, "stream", what));
    if (!index) { fail(said(what) + ": more than 65,535 streams"); }
    return *index;
  }

  // ---- A device
  AllocationTrace device_trace(PickleValue const& root, std::size_t device, Values const& events) {
    AllocationTrace trace;
    TraceTables tables(trace);
    trace.device_index = static_cast<int>(device);
    trace.allocator_settings = settings(root);
    trace.events.reserve(std::min(events.size(), work_left_));
    for (std::size_t i = 0; i < events.size(); ++i) {
      auto const what = [&] { return "device " + std::to_string(device) + ", event " + std::to_string(i); };
      trace.events.push_back(event(events[i], tables, what));
    }
    read_annotations(root, trace);
    auto const found = segments_.find(static_cast<std::int64_t>(device));
    auto segments = found == segments_.end() ? std::vector<RawSegment>() : found->second;
    finish(trace, tables, segments);
    return trace;
  }

  template <typename What>
  TraceEvent event(PickleValue const& value, TraceTables& tables, What const& what) {
    if (value.kind() != Kind::dict) { fail(what() + " is " + value.kind_name() + ", not a dict"); }
    auto const& fields = document_.items(value);
    spend(fields.size() + 1);
    PickleValue const* place = nullptr;
    PickleValue const* size = nullptr;
    PickleValue const* frames = nullptr;
    std::optional<TraceAction> action;
    TraceEvent event;
    for (std::size_t i = 0; i + 1 < fields.size(); i += 2) {
      if (!fields[i].is_text()) { continue; }
      auto const key = fields[i].as_text();
      auto const& field = fields[i + 1];
      if (key == "action") {
        auto const name = text(field, "action", what);
        action = parse_trace_action(name);
        if (!action) { fail(what() + ": '" + printable(name) + "' is no action of the allocator's"); }
      } else if (key == "addr" || key == "device_free") {
        place = &field;
      } else if (key == "size") {
        size = &field;
      } else if (key == "stream") {
        event.stream = stream(tables, field, what);
      } else if (key == "time_us") {
        event.time_us = field.as_integer().value_or(0);
      } else if (key == "frames") {
        frames = &field;
      }
    }
    if (!action) { fail(what() + " has no 'action'"); }
    event.action = *action;
    auto const says_nothing = event.action == TraceAction::snapshot || event.action == TraceAction::user_defined;
    if (size != nullptr) { event.size = integer(*size, "size", what); }
    if (place != nullptr) { event.address = address(*place, "addr", what); }
    if (!says_nothing && (size == nullptr || place == nullptr)) {
      fail(what() + " has no '" + (size == nullptr ? "size'" : "addr'"));
    }
    if (auto const* const wrong = wrong_with(event)) { fail(what() + " has " + wrong); }
    if (frames != nullptr && frames->is_container()) { event.label = label(*frames, tables); }
    return event;
  }

  // ---- Who asked
  /// The operator that was called, where C++ frames tell; else the innermost line of Python.
  std::uint32_t label(PickleValue const& frames, TraceTables& tables) {
    auto const [known, is_new] = labels_of_stacks_.emplace(frames.container_index(), 0);
    if (!is_new) { return known->second; }
    std::string const* operator_name = nullptr;
    std::string const* python_line = nullptr;
    auto const& list = document_.items(frames);
    spend(list.size());
    for (auto const& frame : list) {
      if (frame.kind() != Kind::dict) { continue; }
      auto const& caller = caller_in(frame);
      if (!caller.operator_name.empty()) {
        operator_name = &caller.operator_name;
      }  // outermost: what the program called
      if (python_line == nullptr && !caller.python_line.empty()) { python_line = &caller.python_line; }
    }
    auto const* const text = operator_name != nullptr ? operator_name : python_line;
    known->second = text == nullptr ? 0 : tables.label(*text);
    return known->second;
  }

  struct Caller {
    std::string operator_name;  // "aten::zeros_like"
    std::string python_line;    // "train.py:21 <module>"
  };
  /// Stacks share frames, so each is looked at once.
  Caller const& caller_in(PickleValue const& frame) {
    auto const [known, is_new] = callers_.try_emplace(frame.container_index());
    auto& caller = known->second;
    if (!is_new) { return caller; }
    spend(document_.items(frame).size());
    auto const* const name = document_.find(frame, "name");
    auto const* const file = document_.find(frame, "filename");
    auto const* const line = document_.find(frame, "line");
    if (name == nullptr || file == nullptr || !name->is_text() || !file->is_text()) { return caller; }
    if (file->as_text() == kLabelFile) {
      caller.operator_name = printable(name->as_text());
    } else if (auto const found = operator_in(name->as_text()); !found.empty()) {
      caller.operator_name = printable("aten::" + std::string(found));
    } else if (ends_in(file->as_text(), ".py")) {
      auto const slash = file->as_text().rfind('/');
      caller.python_line = printable(
          std::string(file->as_text().substr(slash == std::string_view::npos ? 0 : slash + 1)) + ':' +
          std::to_string(line == nullptr ? 0 : line->as_integer().value_or(0)) + ' ' + std::string(name->as_text()));
    }
    return caller;
  }
  static std::string_view operator_in(std::string_view function) {
    constexpr std::string_view begin = "at::_ops::";
    constexpr std::string_view end = "::call(";
    if (function.substr(0, begin.size()) != begin) { return {}; }
    auto const name = function.substr(begin.size(), function.find(end) - begin.size());
    return function.find(end) == std::string_view::npos || name.find(':') != std::string_view::npos ? std::string_view()
                                                                                                    : name;
  }
  static bool ends_in(std::string_view text, std::string_view ending) {
    return text.size() >= ending.size() && text.substr(text.size() - ending.size()) == ending;
  }

  // ---- Segments at the end
  struct RawSegment {
    TraceSegment segment;
    std::uint64_t stream = 0;
    PrivatePoolId pool;
  };

  void read_segments(PickleValue const& root) {
    auto const* const list = document_.find(root, "segments");
    if (list == nullptr) { return; }
    auto const& segments = items(*list, Kind::list, "segments");
    for (std::size_t i = 0; i < segments.size(); ++i) {
      auto const what = "segment " + std::to_string(i);
      auto const& value = segments[i];
      spend_on(value);
      auto const device = integer(require(value, "device", what), "device", what);
      segments_[device].push_back(segment(value, what));
    }
  }

  RawSegment segment(PickleValue const& value, std::string const& what) {
    RawSegment raw;
    auto& segment = raw.segment;
    segment.address = address(require(value, "address", what), "address", what);
    segment.size = size_of(require(value, "total_size", what), "total_size", segment.address, what);
    raw.stream = address(require(value, "stream", what), "stream", what);
    if (auto const* const type = document_.find(value, "segment_type")) {
      segment.small = type->is_text() && type->as_text() == "small";
    }
    if (auto const* const expandable = document_.find(value, "is_expandable")) {
      segment.expandable = expandable->kind() == Kind::boolean && expandable->as_boolean();
    }
    if (auto const* const pool = document_.find(value, "segment_pool_id")) {
      auto const& id = items(*pool, Kind::tuple, what + ": segment_pool_id");
      if (id.size() != 2) { fail(what + ": segment_pool_id has " + std::to_string(id.size()) + " parts, not 2"); }
      raw.pool = {address(id[0], "segment_pool_id", what), address(id[1], "segment_pool_id", what)};
    }
    auto at = segment.address;
    for (auto const& item : items(require(value, "blocks", what), Kind::list, what + ": blocks")) {
      spend_on(item);
      segment.blocks.push_back(block(item, at, what));
      at = segment.blocks.back().address + static_cast<std::uint64_t>(segment.blocks.back().size);
      if (at > segment.address + static_cast<std::uint64_t>(segment.size)) {
        fail(what + " is smaller than its blocks");
      }
    }
    return raw;
  }
  TraceBlock block(PickleValue const& value, DeviceAddress expected, std::string const& what) const {
    TraceBlock block;
    block.address = expected;  // older snapshots do not tell
    if (auto const* const place = document_.find(value, "address")) {
      block.address = address(*place, "address", what);
    }
    if (block.address != expected) { fail(what + ": its blocks do not lie side by side"); }
    block.size = size_of(require(value, "size", what), "size", block.address, what);
    block.requested_size = block.size;
    if (auto const* const requested = document_.find(value, "requested_size")) {
      block.requested_size = size_of(*requested, "requested_size", block.address, what);
    }
    auto const state = text(require(value, "state", what), "state", what);
    if (state == "active_allocated") {
      block.state = TraceBlock::State::allocated;
    } else if (state == "active_pending_free" || state == "active_awaiting_free") {
      block.state = TraceBlock::State::pending_free;
    } else if (state != "inactive") {
      fail(what + ": '" + printable(state) + "' is no state of a block");
    }
    return block;
  }
  std::int64_t size_of(PickleValue const& value, char const* key, DeviceAddress place, std::string const& what) const {
    TraceEvent event;  // the same bounds as everywhere
    event.address = place;
    event.size = integer(value, key, what);
    if (auto const* const wrong = wrong_with(event)) { fail(what + ": '" + key + "' is " + wrong); }
    return event.size;
  }

  void finish(AllocationTrace& trace, TraceTables& tables, std::vector<RawSegment>& raw_segments) {
    std::vector<TraceSegment> segments;
    for (auto& raw : raw_segments) {
      auto const stream = tables.stream(raw.stream);
      if (!stream) { fail("more than 65,535 streams"); }
      raw.segment.stream = *stream;
      try {
        raw.segment.pool = trace.pool_index(raw.pool);
      } catch (std::length_error const& error) { fail(error.what()); }
      segments.push_back(std::move(raw.segment));
    }
    attribute_pools(trace, segments);
    // Without segments nothing contradicts the history; what it presupposes is found when it is replayed.
    if (!segments.empty() || document_.find(document_.root, "segments") != nullptr) {
      trace.initial_segments = initial_segments_of(trace, segments, name_);
    }
  }

  /// Events do not say which pool they are of, and the segments at the end do: for those since a segment was bought.
  static void attribute_pools(AllocationTrace& trace, std::vector<TraceSegment> const& segments) {
    std::map<DeviceAddress, TraceSegment const*> private_ones;
    for (auto const& segment : segments) {
      if (segment.pool != 0) { private_ones.emplace(segment.address, &segment); }
    }
    for (auto event = trace.events.rbegin(); event != trace.events.rend() && !private_ones.empty(); ++event) {
      auto found = private_ones.upper_bound(event->address);
      if (found == private_ones.begin() || event->action == TraceAction::oom) { continue; }
      --found;
      auto const& segment = *found->second;
      if (event->address - segment.address >= static_cast<std::uint64_t>(segment.size)) { continue; }
      event->pool = segment.pool;
      if (event->action == TraceAction::segment_alloc) { private_ones.erase(found); }
    }
  }

  // ---- The rest
  std::string settings(PickleValue const& root) const {
    auto const* const all = document_.find(root, "allocator_settings");
    if (all == nullptr || all->kind() != Kind::dict) { return {}; }
    auto const* const text = document_.find(*all, "PYTORCH_CUDA_ALLOC_CONF");
    if (text != nullptr && text->is_text() && !text->as_text().empty()) { return printable_settings(text->as_text()); }
    // Set in another way than by that variable.
    std::string made;
    auto const add = [&](std::string const& part) { made += (made.empty() ? "" : ",") + part; };
    if (auto const* const value = document_.find(*all, "max_split_size"); value != nullptr) {
      if (auto const size = value->as_integer(); size && *size > 0) {
        add("max_split_size_mb:" + std::to_string(*size >> 20));
      }
    }
    if (auto const* const value = document_.find(*all, "garbage_collection_threshold"); value != nullptr) {
      if (auto const part = value->as_real(); part && *part > 0 && *part < 1) {
        add("garbage_collection_threshold:" + std::to_string(*part));
      }
    }
    if (auto const* const value = document_.find(*all, "expandable_segments"); value != nullptr) {
      if (value->kind() == Kind::boolean && value->as_boolean()) { add("expandable_segments:True"); }
    }
    return made;
  }
  static std::string printable_settings(std::string_view text) {
    constexpr std::size_t longest = 4096;
    std::string shown;
    for (auto const c : text.substr(0, longest)) { shown += c >= ' ' && c <= '~' ? c : '?'; }
    return shown;
  }

  /// Ranges that a profiler or an optimizer named, by their times.
  void read_annotations(PickleValue const& root, AllocationTrace& trace) {
    auto const* const list = document_.find(root, "external_annotations");
    if (list == nullptr || list->kind() != Kind::list || trace.events.empty() || trace.events.front().time_us == 0) {
      return;
    }
    std::vector<std::pair<std::int64_t, TraceMark>> marks;
    for (auto const& annotation : document_.items(*list)) {
      spend_on(annotation);
      auto const* const stage = document_.find(annotation, "stage");
      auto const* const name = document_.find(annotation, "name");
      auto const* const device = document_.find(annotation, "device");
      auto const* const time = document_.find(annotation, "time_us");
      if (stage == nullptr || name == nullptr || time == nullptr || !stage->is_text() || !name->is_text()) { continue; }
      if (device != nullptr && device->as_integer() != std::int64_t{trace.device_index}) { continue; }
      auto const when = time->as_integer();
      // What was before the history is not known of.
      if (!when || *when < trace.events.front().time_us) { continue; }
      if (stage->as_text() != "START" && stage->as_text() != "END") { continue; }
      TraceMark mark;
      mark.kind = stage->as_text() == "START" ? TraceMark::Kind::phase_begin : TraceMark::Kind::phase_end;
      mark.label = printable(name->as_text());
      constexpr std::string_view step = "step ";  // as we write them
      if (mark.label.compare(0, step.size(), step) == 0) {
        mark.label.erase(0, step.size());
        mark.kind = mark.kind == TraceMark::Kind::phase_begin ? TraceMark::Kind::step_begin : TraceMark::Kind::step_end;
      }
      marks.emplace_back(*when, std::move(mark));
    }
    std::stable_sort(marks.begin(), marks.end(), [](auto const& a, auto const& b) { return a.first < b.first; });
    std::size_t event = 0;
    for (auto& [time, mark] : marks) {
      while (event < trace.events.size() && trace.events[event].time_us <= time) { ++event; }
      mark.event = event;
      trace.marks.push_back(std::move(mark));
    }
  }

  // ---- Another dump of the history, as recording scripts make it
  /// {'ev': [(action, address, size, stream), ...], 'marks': [(label, allocated peak, reserved peak, reserved), ...],
  ///  'nev': [events before each mark], 'settings': ...}
  AllocationTrace event_tuples(PickleValue const& root) {
    AllocationTrace trace;
    TraceTables tables(trace);
    trace.allocator_settings = settings_of_tuples(root);
    auto const& events = items(require(root, "ev", "the recording"), Kind::list, "ev");
    for (std::size_t i = 0; i < events.size(); ++i) {
      auto const what = "event " + std::to_string(i);
      auto const& fields = items(events[i], Kind::tuple, what);
      spend(fields.size() + 1);
      if (fields.size() != 4) { fail(what + " has " + std::to_string(fields.size()) + " parts, not 4"); }
      TraceEvent event;
      auto const action = parse_trace_action(text(fields[0], "action", what));
      if (!action) { fail(what + ": '" + printable(fields[0].as_text()) + "' is no action of the allocator's"); }
      event.action = *action;
      event.address = address(fields[1], "address", what);
      event.size = integer(fields[2], "size", what);
      event.stream = stream(tables, fields[3], what);
      if (auto const* const wrong = wrong_with(event)) { fail(what + " has " + wrong); }
      trace.events.push_back(event);
    }
    if (trace.events.empty()) { fail("holds no events"); }
    read_tuple_marks(root, trace);
    return trace;
  }
  std::string settings_of_tuples(PickleValue const& root) const {
    auto const* const value = document_.find(root, "settings");
    auto const* const text = value == nullptr ? nullptr : document_.find(*value, "PYTORCH_CUDA_ALLOC_CONF");
    return text != nullptr && text->is_text() ? printable_settings(text->as_text()) : std::string();
  }
  void read_tuple_marks(PickleValue const& root, AllocationTrace& trace) {
    auto const& marks = items(require(root, "marks", "the recording"), Kind::list, "marks");
    auto const& places = items(require(root, "nev", "the recording"), Kind::list, "nev");
    if (marks.size() != places.size()) {
      fail("has " + std::to_string(marks.size()) + " marks at " + std::to_string(places.size()) + " places");
    }
    std::uint64_t previous = 0;
    for (std::size_t i = 0; i < marks.size(); ++i) {
      auto const what = "mark " + std::to_string(i);
      auto const& fields = items(marks[i], Kind::tuple, what);
      spend(fields.size() + 1);
      if (fields.size() != 4) { fail(what + " has " + std::to_string(fields.size()) + " parts, not 4"); }
      TraceMark mark;
      mark.event = address(places[i], "nev", what);
      if (mark.event < previous || mark.event > trace.events.size()) { fail(what + " is not in its place"); }
      previous = mark.event;
      mark.label = printable(text(fields[0], "label", what));
      constexpr std::array<char const*, 3> names = {"allocated_peak", "reserved_peak", "reserved"};
      for (std::size_t n = 0; n < names.size(); ++n) {
        mark.statistics.push_back({names[n], integer(fields[n + 1], names[n], what)});
      }
      trace.marks.push_back(std::move(mark));
    }
  }

  PickleDocument const& document_;
  std::string const& name_;
  std::size_t work_left_;
  std::map<std::int64_t, std::vector<RawSegment>> segments_;
  std::unordered_map<std::size_t, std::uint32_t> labels_of_stacks_;
  std::unordered_map<std::size_t, Caller> callers_;
};

}  // namespace MAXBATCH_ABI_NAMESPACE
}  // namespace detail
}  // namespace maxbatch
