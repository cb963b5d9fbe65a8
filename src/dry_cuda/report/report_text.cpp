#include "report_text.hpp"

#include "site_text.hpp"

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

std::string times(std::int64_t count) {
  return count == 0 ? "never" : count == 1 ? "once" : std::to_string(count) + " times";
}

/// "; of it 24 MiB by a table from a card, 8 MiB ..."; nothing where no scratch was alive.
std::string scratch_of_peak(AllocatorRecord const& allocator) {
  std::string text;
  for (std::size_t i = 0; i < kMemorySources; ++i) {
    auto const bytes = allocator.peak_source_bytes.at(i);
    if (bytes == 0) { continue; }
    text += (text.empty() ? "" : ", ") + mib(bytes) + ' ' + name_of(static_cast<MemorySource>(i));
  }
  return text.empty() ? text : "\n    scratch memory alive at that peak: " + text;
}

void add_allocator(std::string& text, AllocatorRecord const& allocator) {
  if (allocator.watched == 0 || allocator.peak_allocated_bytes == 0) { return; }
  text += "    LibTorch's allocator: peak allocated " + mib(allocator.peak_allocated_bytes) + ", reserved " +
          mib(allocator.peak_reserved_bytes) + "; cache given back for a second try: " + times(allocator.retries) +
          "; out of memory: " + times(allocator.out_of_memory) + scratch_of_peak(allocator) + '\n';
  if (allocator.low_peak_allocated_bytes != allocator.high_peak_allocated_bytes) {
    text += "    some convolution workspaces are in no table of this card: the allocated peak lies between " +
            mib(allocator.low_peak_allocated_bytes) + " and " + mib(allocator.high_peak_allocated_bytes) + '\n';
  }
  if (allocator.out_of_memory > 0) {
    auto const& request = allocator.last_out_of_memory;
    text += "    the last request that failed: " + mib(request.bytes) + " with " + mib(request.program_bytes) +
            " allocated and " + mib(request.free_bytes) + " free on the card\n";
  }
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
  add_allocator(text, record.allocator.at(static_cast<std::size_t>(index)));
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

void add_sources(std::string& text, ProcessRecord const& record) {
  std::string line;
  for (std::size_t i = 0; i < kMemorySources; ++i) {
    auto const& source = record.source.at(i);
    if (source.answers == 0) { continue; }
    line += (line.empty() ? "" : ", ") + std::to_string(source.answers) + ' ' + name_of(static_cast<MemorySource>(i)) +
            " (at most " + mib(source.largest_bytes) + ')';
  }
  if (!line.empty()) { text += "  answers about scratch memory: " + line + '\n'; }
  if (record.questions > 0) {
    text += "  " + std::to_string(record.questions) +
            " convolutions are in no table of this card; dry-run --questions FILE writes them down for profile-gpu\n";
  }
}

}  // namespace

char const* name_of(MemorySource source) {
  switch (source) {
    case MemorySource::table: return "by a table from a card";
    case MemorySource::neighbours: return "by a table at other batch sizes";
    case MemorySource::planned: return "planned without a driver";
    case MemorySource::graph: return "by cuDNN's own plan";
    case MemorySource::rule: return "by rules measured on this card";
    case MemorySource::estimate: return "estimated";
  }
  return "";
}

std::string report_text(ProcessRecord const& record) {
  std::string text = std::string("dry run on ") + record.card.data();
  text += record.devices > 1 ? " x " + std::to_string(record.devices) : "";
  text += record.seed == 0 ? "" : ", seed " + std::to_string(record.seed);
  text += std::string(": ") + record.command.data() + "\n";
  for (int i = 0; i < std::min<int>(record.devices, ProcessRecord::kDevices); ++i) { add_device(text, record, i); }
  add_sources(text, record);
  text += site_text(record.data);
  add_calls(text, record, CallNote::refused, "not supported on a dry card");
  add_calls(text, record, CallNote::defaulted, "answered by default, unchecked");
  return text;
}

}  // namespace maxbatch::dry
