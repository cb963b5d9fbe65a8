#include "trace_comparison.hpp"

#include "report/text_table.hpp"
#include <maxbatch/impl/simulation/common_subsequence.hpp>

#include <nlohmann/json.hpp>

#include <algorithm>
#include <map>
#include <tuple>
#include <unordered_map>
#include <utility>

namespace maxbatch::cli {
namespace {

constexpr std::size_t kStillAlive = static_cast<std::size_t>(-1);

/// From one event to another of its trace.
struct Allocation {
  std::int64_t size = 0;  // as the allocator rounds it
  std::string const* label = nullptr;
  std::size_t begin = 0;
  std::size_t end = kStillAlive;

  bool is_alive_at(std::size_t event) const { return begin <= event && event < end; }
};

struct Segment {
  TraceAction action = TraceAction::segment_alloc;
  std::int64_t size = 0;

  friend bool operator==(Segment const& a, Segment const& b) { return a.action == b.action && a.size == b.size; }
};

struct Lives {
  std::vector<Allocation> allocations;
  std::vector<Segment> segments;
  std::size_t peak_event = 0;
  Bytes peak_allocated;
  Bytes peak_reserved;
};

std::int64_t block_bytes(std::int64_t size) { return (size + 511) / 512 * 512; }

class LivesReader {
 public:
  explicit LivesReader(AllocationTrace const& trace) : trace_(trace) {}

  Lives read() {
    for (auto const& segment : trace_.initial_segments) {
      reserved_ += segment.size;
      for (auto const& block : segment.blocks) {
        if (block.state != TraceBlock::State::inactive) { begin(block.address, block.requested_size, 0, 0); }
      }
    }
    lives_.peak_reserved = Bytes{reserved_};
    for (std::size_t i = 0; i < trace_.events.size(); ++i) { take(trace_.events[i], i); }
    return std::move(lives_);
  }

 private:
  void take(TraceEvent const& event, std::size_t number) {
    switch (event.action) {
      case TraceAction::alloc: begin(event.address, event.size, event.label, number); break;
      case TraceAction::free_requested: finish(event.address, number); break;
      case TraceAction::segment_alloc:
      case TraceAction::segment_map: segment(event, event.size); break;
      case TraceAction::segment_free:
      case TraceAction::segment_unmap: segment(event, -event.size); break;
      case TraceAction::free_completed:
      case TraceAction::oom:
      case TraceAction::snapshot:
      case TraceAction::user_defined: break;
    }
  }

  void segment(TraceEvent const& event, std::int64_t change) {
    lives_.segments.push_back({event.action, event.size});
    reserved_ += change;
    lives_.peak_reserved = std::max(lives_.peak_reserved, Bytes{reserved_});
  }

  void begin(DeviceAddress address, std::int64_t size, std::uint32_t label, std::size_t number) {
    alive_[address] = lives_.allocations.size();
    lives_.allocations.push_back({block_bytes(size), &trace_.labels.at(label), number, kStillAlive});
    allocated_ += block_bytes(size);
    if (Bytes{allocated_} <= lives_.peak_allocated) { return; }
    lives_.peak_allocated = Bytes{allocated_};
    lives_.peak_event = number;
  }

  void finish(DeviceAddress address, std::size_t number) {
    auto const found = alive_.find(address);
    if (found == alive_.end()) { return; }
    auto& allocation = lives_.allocations[found->second];
    allocation.end = number;
    allocated_ -= allocation.size;
    alive_.erase(found);
  }

  AllocationTrace const& trace_;
  Lives lives_;
  std::unordered_map<DeviceAddress, std::size_t> alive_;
  std::int64_t allocated_ = 0;
  std::int64_t reserved_ = 0;
};

class Comparer {
 public:
  Comparer(Lives const& a, Lives const& b) : a_(a), b_(b) {}

  std::optional<TraceComparison> compare() {
    constexpr std::int64_t kMostEdits = 8000;
    auto const equal = [this](std::uint32_t i, std::uint32_t j) {
      return a_.allocations[i].size == b_.allocations[j].size;
    };
    auto const pairs = detail::common_subsequence(static_cast<std::int64_t>(a_.allocations.size()),
                                                  static_cast<std::int64_t>(b_.allocations.size()), equal, kMostEdits);
    if (!pairs) { return std::nullopt; }
    fill(result_.a, a_);
    fill(result_.b, b_);
    result_.same = pairs->size();
    std::size_t i = 0;
    std::size_t j = 0;
    for (auto const& [in_a, in_b] : *pairs) {
      gap(i, in_a, j, in_b);
      both(a_.allocations[in_a], b_.allocations[in_b]);
      i = in_a + 1;
      j = in_b + 1;
    }
    gap(i, a_.allocations.size(), j, b_.allocations.size());
    for (auto& [key, difference] : grouped_) { result_.differences.push_back(std::move(difference)); }
    std::stable_sort(result_.differences.begin(), result_.differences.end(), [](auto const& one, auto const& other) {
      return std::max(one.alive_in_a, one.alive_in_b) > std::max(other.alive_in_a, other.alive_in_b);
    });
    compare_segments();
    return std::move(result_);
  }

 private:
  using Key = std::tuple<std::string, std::int64_t, std::int64_t>;

  static void fill(ComparedTrace& trace, Lives const& lives) {
    trace.allocations = lives.allocations.size();
    trace.peak_allocated = lives.peak_allocated;
    trace.peak_reserved = lives.peak_reserved;
  }

  void both(Allocation const& in_a, Allocation const& in_b) {
    auto const alive_in_a = in_a.is_alive_at(a_.peak_event);
    auto const alive_in_b = in_b.is_alive_at(b_.peak_event);
    Bytes const size{in_a.size};
    if (alive_in_a && alive_in_b) {
      result_.alive_in_both = result_.alive_in_both + size;
    } else if (alive_in_a) {
      result_.a.alive_longer_here = result_.a.alive_longer_here + size;
    } else if (alive_in_b) {
      result_.b.alive_longer_here = result_.b.alive_longer_here + size;
    }
  }

  /// What lies between two allocations that both have: where there is something on both sides, one is in place of the other.
  void gap(std::size_t i, std::size_t end_of_a, std::size_t j, std::size_t end_of_b) {
    for (; i < end_of_a || j < end_of_b; ++i, ++j) {
      auto const* const in_a = i < end_of_a ? &a_.allocations[i] : nullptr;
      auto const* const in_b = j < end_of_b ? &b_.allocations[j] : nullptr;
      auto const& label = in_a != nullptr && !in_a->label->empty() ? *in_a->label
                          : in_b != nullptr                        ? *in_b->label
                                                                   : *in_a->label;
      Key const key{label, in_a == nullptr ? -1 : in_a->size, in_b == nullptr ? -1 : in_b->size};
      auto& difference = grouped_[key];
      if (difference.count++ == 0) {
        difference.what = label;
        difference.first_in_a = std::min(i, end_of_a);
        if (in_a != nullptr) { difference.size_in_a = Bytes{in_a->size}; }
        if (in_b != nullptr) { difference.size_in_b = Bytes{in_b->size}; }
      }
      count(in_a, a_, result_.a, difference.alive_in_a);
      count(in_b, b_, result_.b, difference.alive_in_b);
    }
  }

  static void count(Allocation const* allocation, Lives const& lives, ComparedTrace& trace, Bytes& alive) {
    if (allocation == nullptr) { return; }
    ++trace.only_here;
    if (!allocation->is_alive_at(lives.peak_event)) { return; }
    alive = alive + Bytes{allocation->size};
    trace.alive_only_here = trace.alive_only_here + Bytes{allocation->size};
  }

  void compare_segments() {
    result_.segment_events_in_a = a_.segments.size();
    result_.segment_events_in_b = b_.segments.size();
    auto const both = std::min(a_.segments.size(), b_.segments.size());
    for (std::size_t i = 0; i < both; ++i) {
      if (a_.segments[i] == b_.segments[i]) { continue; }
      result_.first_segment_difference = i;
      return;
    }
    if (a_.segments.size() != b_.segments.size()) { result_.first_segment_difference = both; }
  }

  Lives const& a_;
  Lives const& b_;
  TraceComparison result_;
  std::map<Key, TraceDifference> grouped_;
};

std::string counted(std::size_t count, std::string const& thing) {
  return std::to_string(count) + ' ' + thing + (count == 1 ? "" : "s");
}

std::string size_text(std::optional<Bytes> size) { return size ? to_string(*size) : "-"; }

using Json = nlohmann::ordered_json;

Json json_of(ComparedTrace const& trace, std::string const& name) {
  return {{"file", name},
          {"allocations", trace.allocations},
          {"peak_allocated_bytes", trace.peak_allocated.count},
          {"peak_reserved_bytes", trace.peak_reserved.count},
          {"only_here", trace.only_here},
          {"alive_at_peak_only_here_bytes", trace.alive_only_here.count},
          {"alive_at_peak_longer_here_bytes", trace.alive_longer_here.count}};
}

}  // namespace

std::optional<TraceComparison> compare_traces(AllocationTrace const& a, AllocationTrace const& b) {
  auto const lives_of_a = LivesReader(a).read();
  auto const lives_of_b = LivesReader(b).read();
  return Comparer(lives_of_a, lives_of_b).compare();
}

std::string comparison_text(TraceComparison const& comparison, std::string const& name_of_a,
                            std::string const& name_of_b) {
  using report::TextTable;
  TextTable traces({{"", TextTable::Align::left},
                    {"allocations"},
                    {"peak allocated"},
                    {"peak reserved"},
                    {"only here"},
                    {"of it alive at the peak"},
                    {"alive longer here"}});
  for (auto const& [name, trace] : {std::pair{"A  " + name_of_a, &comparison.a}, {"B  " + name_of_b, &comparison.b}}) {
    traces.add_row({name, std::to_string(trace->allocations), to_string(trace->peak_allocated),
                    to_string(trace->peak_reserved), std::to_string(trace->only_here),
                    to_string(trace->alive_only_here), to_string(trace->alive_longer_here)});
  }
  auto text = traces.to_string() + '\n';
  text += counted(comparison.same, "allocation") + " of the same sizes in the same order, " +
          to_string(comparison.alive_in_both) + " of them alive at both peaks\n";
  if (comparison.first_segment_difference) {
    text += "what is bought from the driver and given back differs from segment event " +
            std::to_string(*comparison.first_segment_difference) + " on (" +
            std::to_string(comparison.segment_events_in_a) + " in A, " +
            std::to_string(comparison.segment_events_in_b) + " in B)\n";
  } else {
    text += "all " + counted(comparison.segment_events_in_a, "segment event") + " are the same\n";
  }
  if (comparison.differences.empty()) { return text; }
  TextTable table({{"what", TextTable::Align::left},
                   {"times"},
                   {"size in A"},
                   {"size in B"},
                   {"alive at A's peak"},
                   {"alive at B's peak"},
                   {"first at"}});
  for (auto const& one : comparison.differences) {
    table.add_row({one.what.empty() ? "?" : one.what, std::to_string(one.count), size_text(one.size_in_a),
                   size_text(one.size_in_b), to_string(one.alive_in_a), to_string(one.alive_in_b),
                   std::to_string(one.first_in_a)});
  }
  return text + '\n' + table.to_string();
}

std::string comparison_json(TraceComparison const& comparison, std::string const& name_of_a,
                            std::string const& name_of_b) {
  Json json = {{"same", comparison.is_same()},
               {"a", json_of(comparison.a, name_of_a)},
               {"b", json_of(comparison.b, name_of_b)},
               {"same_allocations", comparison.same},
               {"alive_at_both_peaks_bytes", comparison.alive_in_both.count},
               {"first_segment_difference", nullptr},
               {"segment_events", {comparison.segment_events_in_a, comparison.segment_events_in_b}},
               {"differences", Json::array()}};
  if (comparison.first_segment_difference) { json["first_segment_difference"] = *comparison.first_segment_difference; }
  for (auto const& one : comparison.differences) {
    json["differences"].push_back({{"what", one.what.empty() ? Json(nullptr) : Json(one.what)},
                                   {"count", one.count},
                                   {"size_in_a_bytes", one.size_in_a ? Json(one.size_in_a->count) : Json(nullptr)},
                                   {"size_in_b_bytes", one.size_in_b ? Json(one.size_in_b->count) : Json(nullptr)},
                                   {"alive_at_peak_of_a_bytes", one.alive_in_a.count},
                                   {"alive_at_peak_of_b_bytes", one.alive_in_b.count},
                                   {"first_in_a", one.first_in_a}});
  }
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + '\n';
}

}  // namespace maxbatch::cli
