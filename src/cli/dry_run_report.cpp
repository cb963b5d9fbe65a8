#include "dry_run_report.hpp"

#include "dry_cuda/report/report_text.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>

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
    devices.push_back(json_of(record.device.at(static_cast<std::size_t>(i))));
  }
  return {{"process_id", record.process_id},
          {"command", record.command.data()},
          {"devices", devices},
          {"not_supported", calls_of(record, dry::CallNote::refused)},
          {"answered_by_default", calls_of(record, dry::CallNote::defaulted)},
          {"looked_up_in_vain", calls_of(record, dry::CallNote::missing)}};
}

}  // namespace

std::string dry_run_text(DryRunOrder const& order, DryRunOutcome const& outcome) {
  auto const& page = *outcome.page;
  std::string text;
  for (int i = 0; i < recorded_processes(page); ++i) {
    text += dry::report_text(page.process.at(static_cast<std::size_t>(i)));
  }
  auto const left_out = page.processes.load() - recorded_processes(page);
  if (left_out > 0) { text += "and " + std::to_string(left_out) + " more processes, which are not reported\n"; }
  if (text.empty()) {
    text = "dry run on " + order.card_name + ": " + order.program.front() +
           " asked CUDA's runtime for nothing. It uses no GPU, or was linked with the runtime statically, which a dry "
           "card "
           "cannot stand in for.\n";
  }
  return text;
}

std::string dry_run_json(DryRunOrder const& order, DryRunOutcome const& outcome) {
  auto const& page = *outcome.page;
  Json json = {{"card", order.card_name},
               {"device_name", nullptr},
               {"budget_bytes", nullptr},
               {"seed", order.seed},
               {"exit_code", outcome.exit_code},
               {"processes", Json::array()},
               {"processes_left_out", page.processes.load() - recorded_processes(page)}};
  if (order.budget) { json["budget_bytes"] = order.budget->count; }
  for (int i = 0; i < recorded_processes(page); ++i) {
    auto const& record = page.process.at(static_cast<std::size_t>(i));
    json["device_name"] = record.card.data();
    json["processes"].push_back(json_of(record));
  }
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace maxbatch::cli
