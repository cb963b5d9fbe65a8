#include "report_text.hpp"

#include <algorithm>
#include <cstdio>

namespace maxbatch::dry {
namespace {

std::string mib(std::int64_t bytes) {
  std::array<char, 64> text{};
  constexpr std::int64_t kMib = std::int64_t{1} << 20;
  if (bytes % kMib == 0) {
    std::snprintf(text.data(), text.size(), "%lld MiB", static_cast<long long>(bytes / kMib));
  } else {
    std::snprintf(text.data(), text.size(), "%.1f MiB", static_cast<double>(bytes) / static_cast<double>(kMib));
  }
  return text.data();
}

void add_refused(std::string& text, char const* which, RefusedRequest const& request) {
  text += "    ";
  text += which;
  text += " refused: " + mib(request.bytes) + " with " + mib(request.program_bytes) + " held and " +
          mib(request.free_bytes) + " to be had\n";
}

void add_device(std::string& text, ProcessRecord const& record, int index) {
  auto const& device = record.device.at(static_cast<std::size_t>(index));
  if (device.total_bytes == 0) { return; }
  text += "  device " + std::to_string(index) + ": " + mib(device.total_bytes);
  text += record.budget_bytes < 0 ? "" : ", of which the program may take " + mib(record.budget_bytes);
  text += "\n    peak of the program's segments " + mib(device.peak_program_bytes) + " in at most " +
          std::to_string(device.peak_segments) + " at a time; of the device " + mib(device.peak_device_bytes) +
          " (context and libraries " + mib(device.peak_context_bytes) + ")\n";
  text += "    " + std::to_string(device.segments_bought) + " segments bought, " + std::to_string(device.launches) +
          " launches, " + (device.refusals == 0 ? "no" : std::to_string(device.refusals)) +
          " requests for memory refused\n";
  if (device.refusals > 0) { add_refused(text, "first", device.first_refused); }
  if (device.refusals > 1) { add_refused(text, "last", device.last_refused); }
}

void add_calls(std::string& text, ProcessRecord const& record, CallNote note, char const* heading) {
  std::string line;
  for (int i = 0; i < record.calls; ++i) {
    auto const& call = record.call.at(static_cast<std::size_t>(i));
    if (call.note != note) { continue; }
    line += line.empty() ? "" : ", ";
    line += call.name.data();
    if (call.count > 1) { line += " (" + std::to_string(call.count) + ")"; }
  }
  if (!line.empty()) { text += std::string("  ") + heading + ": " + line + "\n"; }
}

}  // namespace

std::string report_text(ProcessRecord const& record) {
  std::string text = std::string("dry run on ") + record.card.data();
  text += record.devices > 1 ? " x " + std::to_string(record.devices) : "";
  text += record.seed == 0 ? "" : ", seed " + std::to_string(record.seed);
  text += std::string(": ") + record.command.data() + "\n";
  for (int i = 0; i < std::min<int>(record.devices, ProcessRecord::kDevices); ++i) { add_device(text, record, i); }
  add_calls(text, record, CallNote::refused, "not supported on a dry card");
  add_calls(text, record, CallNote::defaulted, "answered by default, unchecked");
  return text;
}

}  // namespace maxbatch::dry
