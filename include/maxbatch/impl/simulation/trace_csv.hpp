#pragma once

#include <maxbatch/impl/simulation/trace_source.hpp>

#include <array>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <system_error>

namespace maxbatch {
namespace detail {
inline namespace MAXBATCH_ABI_NAMESPACE {

/// Lines of `action,address,size,stream`, and of marks: `mark:step0:reserved_peak=123:reserved=45`, and of our own
/// `phase_begin:forward`, `phase_end:forward`, `step_begin:0`, `step_end:0`. A first line with the names of the columns may
/// stand or not. Lines that begin with `#` are comments; ours say what the columns cannot: `# limit=10737418240`.
class TraceCsvReader {
 public:
  TraceCsvReader(std::string_view content, std::string const& name) : content_(content), name_(name) {}

  AllocationTrace read() {
    if (content_.substr(0, 3) == "\xEF\xBB\xBF") { content_.remove_prefix(3); }
    while (!content_.empty()) {
      ++line_number_;
      read_line(next_line());
    }
    if (trace_.events.empty()) { fail_trace(name_, "", "holds no events"); }
    return std::move(trace_);
  }

 private:
  // What no honest line is longer than; a mark may hold many statistics.
  static constexpr std::size_t kLongestLine = 65536;

  [[noreturn]] void fail(std::string const& what) const {
    fail_trace(name_, "line " + std::to_string(line_number_), what);
  }

  std::string_view next_line() {
    auto const end = content_.find('\n');
    auto line = content_.substr(0, end);
    content_.remove_prefix(end == std::string_view::npos ? content_.size() : end + 1);
    if (!line.empty() && line.back() == '\r') { line.remove_suffix(1); }
    if (line.size() > kLongestLine) { fail("is " + std::to_string(line.size()) + " bytes long"); }
    return line;
  }

  void read_line(std::string_view line) {
    if (line.empty()) { return; }
    if (line.front() == '#') { return read_comment(line.substr(1)); }
    auto const first = first_field(line);
    if (auto const action = parse_trace_action(first)) { return read_event(*action, line.substr(first.size())); }
    if (first == "action") { return read_heading(line); }
    if (auto const colon = first.find(':'); colon != std::string_view::npos) {
      return read_mark(first.substr(0, colon), first.substr(colon + 1));
    }
    fail("'" + printable(first) +
         "' is no action of the allocator's (alloc, free_requested, free_completed, "
         "segment_alloc, segment_free, segment_map, segment_unmap, oom, mark:...)");
  }

  /// Up to the comma; without the quotes that a field with commas comes in.
  std::string_view first_field(std::string_view line) {
    if (line.front() != '"') { return line.substr(0, line.find(',')); }
    auto const end = line.find('"', 1);
    if (end == std::string_view::npos) { fail("a quoted field does not end"); }
    return line.substr(1, end - 1);
  }

  void read_heading(std::string_view line) {
    if (line != "action,address,size,stream") {
      fail("the columns are '" + printable(line) + "' and must be 'action,address,size,stream'");
    }
    if (!trace_.events.empty()) { fail("the names of the columns may stand in the first line only"); }
  }

  /// `rest`: ",address,size,stream"
  void read_event(TraceAction action, std::string_view rest) {
    TraceEvent event;
    event.action = action;
    event.address = number<std::uint64_t>("address", take_field(rest));
    event.size = number<std::int64_t>("size", take_field(rest));
    auto const stream = tables_.stream(number<std::uint64_t>("stream", take_field(rest)));
    if (!rest.empty()) { fail("has more than 4 fields"); }
    if (!stream) { fail("more than 65,535 streams"); }
    event.stream = *stream;
    if (auto const* const wrong = wrong_with(event)) { fail(wrong); }
    trace_.events.push_back(event);
  }

  std::string_view take_field(std::string_view& rest) {
    if (rest.empty()) { fail("has fewer than the 4 fields action,address,size,stream"); }
    rest.remove_prefix(1);
    auto const field = rest.substr(0, rest.find(','));
    rest.remove_prefix(field.size());
    return field;
  }

  template <typename Number>
  Number number(char const* field, std::string_view text) {
    Number value = 0;
    auto const [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error == std::errc::result_out_of_range) {
      fail(std::string(field) + " '" + printable(text) + "' does not fit into 64 bits");
    }
    if (error != std::errc() || end != text.data() + text.size()) {
      fail(std::string(field) + " '" + printable(text) + "' is not a whole number");
    }
    return value;
  }

  void read_mark(std::string_view kind, std::string_view rest) {
    TraceMark mark;
    mark.event = trace_.events.size();
    if (kind == "mark") {
      read_statistics(mark, rest);
    } else if (auto const known = own_kind(kind)) {
      mark.kind = *known;
      mark.label = rest;
    } else {
      fail("'" + printable(kind) + ":' is no mark (mark:, phase_begin:, phase_end:, step_begin:, step_end:)");
    }
    trace_.marks.push_back(std::move(mark));
  }

  static std::optional<TraceMark::Kind> own_kind(std::string_view text) {
    using Kind = TraceMark::Kind;
    for (auto const kind : {Kind::phase_begin, Kind::phase_end, Kind::step_begin, Kind::step_end}) {
      if (to_string(kind) == text) { return kind; }
    }
    return std::nullopt;
  }

  /// `label:name=value:name=value`; a label may hold colons, too.
  void read_statistics(TraceMark& mark, std::string_view text) {
    auto has_label = false;
    while (true) {
      auto const part = text.substr(0, text.find(':'));
      auto const equals = part.find('=');
      if (equals != std::string_view::npos) {
        mark.statistics.push_back(
            {std::string(part.substr(0, equals)), number<std::int64_t>("a mark's value", part.substr(equals + 1))});
      } else if (mark.statistics.empty()) {
        mark.label += (has_label ? ":" : "") + std::string(part);
        has_label = true;
      } else {
        fail("a mark's '" + printable(part) + "' is not of the form name=value");
      }
      if (part.size() == text.size()) { return; }
      text.remove_prefix(part.size() + 1);
    }
  }

  /// Comments of our own writing; any other one is somebody's.
  void read_comment(std::string_view text) {
    if (text.substr(0, 1) == " ") { text.remove_prefix(1); }
    auto const equals = text.find('=');
    if (equals == std::string_view::npos) { return; }
    auto const key = text.substr(0, equals);
    auto const value = text.substr(equals + 1);
    if (key == "limit") {
      trace_.limit = Bytes{number<std::int64_t>("limit", value)};
    } else if (key == "total_memory") {
      trace_.total_memory = Bytes{number<std::int64_t>("total_memory", value)};
    } else if (key == "device_name") {
      trace_.device_name = value;
    } else if (key == "allocator_settings") {
      trace_.allocator_settings = value;
    } else if (key == "world") {
      for (auto const world : {TraceWorld::measured, TraceWorld::dry, TraceWorld::cpu, TraceWorld::simulated}) {
        if (to_string(world) == value) { trace_.world = world; }
      }
    }
  }

  std::string_view content_;
  std::string const& name_;
  std::size_t line_number_ = 0;
  AllocationTrace trace_;
  TraceTables tables_{trace_};
};

/// `text` on one line, without what ends a field.
inline std::string as_csv_text(std::string_view text) {
  std::string shown;
  for (auto const c : text) { shown += c == '\n' || c == '\r' || c == '"' ? ' ' : c; }
  return shown;
}

inline std::string csv_mark_text(TraceMark const& mark) {
  auto text = mark.kind == TraceMark::Kind::statistics ? std::string("mark") : std::string(to_string(mark.kind));
  text += ':' + as_csv_text(mark.label);
  for (auto const& statistic : mark.statistics) {
    text += ':' + as_csv_text(statistic.name) + '=' + std::to_string(statistic.value);
  }
  return (text.find(',') == std::string::npos ? text : '"' + text + '"') + ",0,0,0\n";
}

inline std::string format_trace_csv(AllocationTrace const& trace) {
  if (!trace.initial_segments.empty()) {
    throw TraceError("the trace begins with " + std::to_string(trace.initial_segments.size()) +
                     " segments that existed before, and CSV has no place for them: write it as binary or snapshot");
  }
  std::string text;
  text.reserve(trace.events.size() * 48);
  auto const comment = [&](char const* key, std::string const& value) {
    if (!value.empty()) { text += std::string("# ") + key + '=' + as_csv_text(value) + '\n'; }
  };
  text += "action,address,size,stream\n";
  comment("device_name", trace.device_name);
  if (trace.total_memory) { comment("total_memory", std::to_string(trace.total_memory->count)); }
  if (trace.limit) { comment("limit", std::to_string(trace.limit->count)); }
  comment("allocator_settings", trace.allocator_settings);
  if (trace.world != TraceWorld::unknown) { comment("world", std::string(to_string(trace.world))); }
  auto mark = trace.marks.begin();
  for (std::size_t i = 0; i <= trace.events.size(); ++i) {
    for (; mark != trace.marks.end() && mark->event <= i; ++mark) { text += csv_mark_text(*mark); }
    if (i == trace.events.size()) { break; }
    auto const& event = trace.events[i];
    text += to_string(event.action);
    text += ',' + std::to_string(event.address) + ',' + std::to_string(event.size) + ',' +
            std::to_string(trace.streams.at(event.stream)) + '\n';
  }
  return text;
}

}  // namespace MAXBATCH_ABI_NAMESPACE
}  // namespace detail
}  // namespace maxbatch
