#include "dry_run_report.hpp"

#include "dry_cuda/report/report_text.hpp"
#include "dry_run_sites.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <map>
#include <optional>

namespace maxbatch::cli {
namespace {

using Json = nlohmann::ordered_json;

int recorded_processes(dry::ReportPage const& page) {
  return std::min<int>(page.processes.load(), dry::ReportPage::kProcesses);
}

Json json_of(dry::RefusedRequest const& request) {
  return {
      {"requested_bytes", request.bytes}, {"held_bytes", request.program_bytes}, {"free_bytes", request.free_bytes}};
}

char const* key_of(dry::MemorySource source) {
  switch (source) {
    case dry::MemorySource::table: return "convolution_table";
    case dry::MemorySource::neighbours: return "convolution_neighbours";
    case dry::MemorySource::planned: return "convolution_planned";
    case dry::MemorySource::graph: return "graph_planned";
    case dry::MemorySource::rule: return "measured_rule";
    case dry::MemorySource::estimate: return "estimate";
  }
  return "";
}

Json json_of(dry::DeviceRecord const& device) {
  Json json = {{"total_bytes", device.total_bytes},
               {"peak_segment_bytes", device.peak_program_bytes},
               {"peak_device_bytes", device.peak_device_bytes},
               {"peak_context_bytes", device.peak_context_bytes},
               {"peak_segments", device.peak_segments},
               {"segments_bought", device.segments_bought},
               {"launches", device.launches},
               {"refusals", device.refusals},
               {"first_refused", nullptr},
               {"last_refused", nullptr}};
  if (device.refusals > 0) {
    json["first_refused"] = json_of(device.first_refused);
    json["last_refused"] = json_of(device.last_refused);
  }
  return json;
}

Json json_of(dry::AllocatorRecord const& allocator) {
  if (allocator.watched == 0) { return nullptr; }
  Json json = {{"peak_allocated_bytes", allocator.peak_allocated_bytes},
               {"peak_allocated_low_bytes", allocator.low_peak_allocated_bytes},
               {"peak_allocated_high_bytes", allocator.high_peak_allocated_bytes},
               {"peak_requested_bytes", allocator.peak_requested_bytes},
               {"peak_reserved_bytes", allocator.peak_reserved_bytes},
               {"retries", allocator.retries},
               {"out_of_memory", allocator.out_of_memory},
               {"failed_request", nullptr},
               {"peak_scratch_bytes", Json::object()}};
  if (allocator.out_of_memory > 0) {
    auto const& request = allocator.last_out_of_memory;
    json["failed_request"] = {{"requested_bytes", request.bytes},
                              {"allocated_bytes", request.program_bytes},
                              {"free_bytes", request.free_bytes}};
  }
  for (std::size_t i = 0; i < dry::kMemorySources; ++i) {
    json["peak_scratch_bytes"][key_of(static_cast<dry::MemorySource>(i))] = allocator.peak_source_bytes.at(i);
  }
  return json;
}

Json sources_of(dry::ProcessRecord const& record) {
  auto json = Json::object();
  for (std::size_t i = 0; i < dry::kMemorySources; ++i) {
    auto const& source = record.source.at(i);
    json[key_of(static_cast<dry::MemorySource>(i))] = {{"answers", source.answers},
                                                       {"largest_bytes", source.largest_bytes}};
  }
  return json;
}

Json calls_of(dry::ProcessRecord const& record, dry::CallNote note) {
  auto json = Json::array();
  for (int i = 0; i < record.calls; ++i) {
    auto const& call = record.call.at(static_cast<std::size_t>(i));
    if (call.note == note) { json.push_back({{"name", call.name.data()}, {"count", call.count}}); }
  }
  return json;
}

Json json_of(dry::ProcessRecord const& record) {
  auto devices = Json::array();
  for (int i = 0; i < std::min<int>(record.devices, dry::ProcessRecord::kDevices); ++i) {
    auto const index = static_cast<std::size_t>(i);
    devices.push_back(json_of(record.device.at(index)));
    devices.back()["allocator"] = json_of(record.allocator.at(index));
  }
  return {{"process_id", record.process_id},
          {"command", record.command.data()},
          {"devices", devices},
          {"scratch_answers", sources_of(record)},
          {"convolutions_in_no_table", record.questions},
          {"data", data_json(record.data)},
          {"not_supported", calls_of(record, dry::CallNote::refused)},
          {"answered_by_default", calls_of(record, dry::CallNote::defaulted)},
          {"looked_up_in_vain", calls_of(record, dry::CallNote::missing)}};
}

std::string remark_text(dry::Remark remark, std::string const& what) {
  switch (remark) {
    case dry::Remark::none: break;
    case dry::Remark::asked_for_driver:
      return what +
             " asked for the driver itself, so CUDA's runtime is linked into it statically, and a dry card cannot "
             "stand in for that; link libcudart.so.13 (nvcc --cudart shared)";
    case dry::Remark::other_runtime:
      return "the program loads " + what + ", and this dry card stands in for CUDA 13 alone (libcudart.so.13)";
    case dry::Remark::other_libtorch:
      return "the program's LibTorch is " + what + "; answers were compared with a card for LibTorch 2.11 alone";
  }
  return {};
}

}  // namespace

std::vector<std::string> remarks_of(dry::ReportPage const& page) {
  std::vector<std::string> remarks;
  for (auto const& record : page.remark) {
    auto const remark = record.remark.load();
    if (remark != dry::Remark::none) { remarks.push_back(remark_text(remark, record.what.data())); }
  }
  return remarks;
}

namespace {

/// Why no process came to the dry card: the best reason that was seen.
std::string reason_of_nothing(DryRunOrder const& order, dry::ReportPage const& page) {
  for (auto const remark : {dry::Remark::asked_for_driver, dry::Remark::other_runtime}) {
    for (auto const& record : page.remark) {
      if (record.remark.load() == remark) { return remark_text(remark, record.what.data()); }
    }
  }
  return order.program.front() + " asked CUDA's runtime for nothing: it uses no GPU";
}

/// One run in figures that can be compared with another seed's.
struct RunFigures {
  std::int64_t peak_device_bytes = 0;
  std::int64_t peak_segment_bytes = 0;
  std::int64_t peak_allocated_bytes = 0;
  std::int64_t out_of_memory = 0;
};

/// Of the process and device that took most, as most programs have one of each.
RunFigures figures_of(dry::ReportPage const& page) {
  RunFigures most;
  for (int i = 0; i < recorded_processes(page); ++i) {
    auto const& process = page.process.at(static_cast<std::size_t>(i));
    for (std::size_t device = 0; device < process.device.size(); ++device) {
      auto const& record = process.device.at(device);
      auto const& allocator = process.allocator.at(device);
      most.out_of_memory += allocator.out_of_memory;
      if (record.peak_device_bytes <= most.peak_device_bytes) { continue; }
      most.peak_device_bytes = record.peak_device_bytes;
      most.peak_segment_bytes = record.peak_program_bytes;
      most.peak_allocated_bytes = allocator.peak_allocated_bytes;
    }
  }
  return most;
}

/// The most frequent of the values, the larger one of two that are as frequent, and their range.
struct Spread {
  std::int64_t most_frequent = 0;
  std::int64_t count = 0;
  std::int64_t least = 0;
  std::int64_t most = 0;
};

Spread spread_of(std::vector<std::int64_t> const& values) {
  std::map<std::int64_t, std::int64_t> counts;
  for (auto const value : values) { ++counts[value]; }
  Spread spread;
  spread.least = counts.begin()->first;
  spread.most = counts.rbegin()->first;
  for (auto const& [value, count] : counts) {
    if (count < spread.count) { continue; }
    spread.most_frequent = value;
    spread.count = count;
  }
  return spread;
}

template <typename Value>
std::vector<std::int64_t> values_of(std::vector<DryRunOutcome> const& outcomes, Value value) {
  std::vector<std::int64_t> values;
  for (auto const& outcome : outcomes) { values.push_back(value(outcome)); }
  return values;
}

Spread spread_of_peaks(std::vector<DryRunOutcome> const& outcomes) {
  return spread_of(values_of(outcomes, [](auto const& one) { return figures_of(*one.page).peak_segment_bytes; }));
}

std::int64_t runs_out_of_memory(std::vector<DryRunOutcome> const& outcomes) {
  return std::count_if(outcomes.begin(), outcomes.end(),
                       [](auto const& one) { return figures_of(*one.page).out_of_memory > 0; });
}

std::string spread_text(std::vector<DryRunOutcome> const& outcomes) {
  auto const runs = static_cast<std::int64_t>(outcomes.size());
  auto const peak = spread_of_peaks(outcomes);
  auto const codes = spread_of(values_of(outcomes, [](auto const& one) { return one.exit_code; }));
  auto text = "over " + std::to_string(runs) + " seeds the peak of the program's segments is " +
              to_string(Bytes{peak.most_frequent});
  text += peak.least == peak.most ? " in each"
                                  : " in " + std::to_string(peak.count) + ", and between " +
                                        to_string(Bytes{peak.least}) + " and " + to_string(Bytes{peak.most});
  text += "; LibTorch ran out of memory in " + std::to_string(runs_out_of_memory(outcomes)) + "; exit code " +
          std::to_string(codes.most_frequent) +
          (codes.count == runs ? " in each" : " in " + std::to_string(codes.count));
  return text + '\n';
}

Json spread_json(std::vector<DryRunOutcome> const& outcomes) {
  auto const peak = spread_of_peaks(outcomes);
  auto runs = Json::array();
  for (auto const& outcome : outcomes) {
    auto const figures = figures_of(*outcome.page);
    runs.push_back({{"seed", outcome.seed},
                    {"exit_code", outcome.exit_code},
                    {"peak_segment_bytes", figures.peak_segment_bytes},
                    {"peak_device_bytes", figures.peak_device_bytes},
                    {"peak_allocated_bytes", figures.peak_allocated_bytes},
                    {"out_of_memory", figures.out_of_memory}});
  }
  return {{"peak_segment_bytes",
           {{"most_frequent", peak.most_frequent}, {"count", peak.count}, {"min", peak.least}, {"max", peak.most}}},
          {"out_of_memory", runs_out_of_memory(outcomes)},
          {"runs", runs}};
}

}  // namespace

int dry_run_exit_code(std::vector<DryRunOutcome> const& outcomes) {
  return static_cast<int>(spread_of(values_of(outcomes, [](auto const& one) { return one.exit_code; })).most_frequent);
}

std::string dry_run_text(DryRunOrder const& order, std::vector<DryRunOutcome> const& outcomes) {
  auto const& page = *outcomes.front().page;
  std::string text;
  for (int i = 0; i < recorded_processes(page); ++i) {
    text += dry::report_text(page.process.at(static_cast<std::size_t>(i)));
  }
  auto const left_out = page.processes.load() - recorded_processes(page);
  if (left_out > 0) { text += "and " + std::to_string(left_out) + " more processes, which are not reported\n"; }
  if (text.empty()) { return "dry run on " + order.card_name + ": " + reason_of_nothing(order, page) + ".\n"; }
  for (auto const& remark : remarks_of(page)) { text += "  " + remark + '\n'; }
  text += "  the context's share is " + order.context_source + '\n';
  if (outcomes.size() > 1) { text += spread_text(outcomes); }
  return text;
}

std::string dry_run_json(DryRunOrder const& order, std::vector<DryRunOutcome> const& outcomes) {
  auto const& page = *outcomes.front().page;
  Json json = {{"card", order.card_name},
               {"device_name", nullptr},
               {"budget_bytes", nullptr},
               {"context_source", order.context_source},
               {"seed", order.seed},
               {"exit_code", outcomes.front().exit_code},
               {"remarks", remarks_of(page)},
               {"processes", Json::array()},
               {"processes_left_out", page.processes.load() - recorded_processes(page)}};
  if (recorded_processes(page) == 0) { json["remarks"].push_back(reason_of_nothing(order, page)); }
  if (order.budget) { json["budget_bytes"] = order.budget->count; }
  for (int i = 0; i < recorded_processes(page); ++i) {
    auto const& record = page.process.at(static_cast<std::size_t>(i));
    json["device_name"] = record.card.data();
    json["processes"].push_back(json_of(record));
  }
  if (outcomes.size() > 1) { json["seeds"] = spread_json(outcomes); }
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace maxbatch::cli
