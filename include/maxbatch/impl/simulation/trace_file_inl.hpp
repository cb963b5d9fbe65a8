#pragma once

#include <maxbatch/impl/simulation/gzip.hpp>
#include <maxbatch/impl/simulation/memory_snapshot_reader.hpp>
#include <maxbatch/impl/simulation/memory_snapshot_writer.hpp>
#include <maxbatch/impl/simulation/pickle_reader.hpp>
#include <maxbatch/impl/simulation/trace_binary.hpp>
#include <maxbatch/impl/simulation/trace_csv.hpp>
#include <maxbatch/impl/simulation/trace_source.hpp>
#include <maxbatch/simulation/trace_file.hpp>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <memory>
#include <system_error>

namespace maxbatch {
namespace detail {
inline namespace MAXBATCH_ABI_NAMESPACE {

inline std::string system_error_text() { return std::generic_category().message(errno); }

/// A pipe will do. What never ends is refused.
inline std::string read_whole_file(std::string const& path, Bytes max_size) {
  struct Close {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  errno = 0;
  std::unique_ptr<std::FILE, Close> const file(std::fopen(path.c_str(), "rb"));
  if (!file) { fail_trace(path, "", "cannot be read: " + system_error_text()); }
  std::string content;
  std::vector<char> part(std::size_t{1} << 20);
  while (auto const count = std::fread(part.data(), 1, part.size(), file.get())) {
    content.append(part.data(), count);
    if (static_cast<std::int64_t>(content.size()) > max_size.count) {
      fail_trace(path, "", "is larger than " + to_string(max_size) + ", the limit that was set");
    }
  }
  if (std::ferror(file.get()) != 0) { fail_trace(path, "", "cannot be read: " + system_error_text()); }
  return content;
}

/// Binary protocols say so; texts of protocol 0 and 1 begin with the dict or list that they hold.
inline bool is_pickle(std::string_view content) {
  if (content.front() == '\x80' || content.front() == '}' || content.front() == ']') { return true; }
  auto const start = content.substr(0, 2);
  return start == "(d" || start == "(l";
}

/// What a file surely is that is no trace; empty: nothing that is known.
inline std::string told_by_its_start(std::string_view content) {
  using namespace std::string_view_literals;
  if (content.substr(0, 4) == "PK\x03\x04") {
    return "a zip archive, such as torch.save writes; a memory snapshot comes from torch.cuda.memory._dump_snapshot()";
  }
  if (content.substr(0, 6) == "\xFD\x37zXZ\0"sv) { return "compressed with xz; unpack it first"; }
  if (content.substr(0, 4) == "\x28\xB5\x2F\xFD") { return "compressed with zstd; unpack it first"; }
  if (content.substr(0, 3) == "BZh") { return "compressed with bzip2; unpack it first"; }
  if (content.substr(0, 4) ==
      "\x7F"
      "ELF") {
    return "a program or library";
  }
  if (content.front() == '<') { return "HTML or XML; a memory snapshot's own file is needed, not the viewer's page"; }
  if (content.front() == '{' || content.front() == '[') { return "JSON"; }
  return "";
}

}  // namespace MAXBATCH_ABI_NAMESPACE
}  // namespace detail

inline namespace MAXBATCH_ABI_NAMESPACE {

MAXBATCH_INLINE std::string_view to_string(TraceFormat format) {
  constexpr std::array<std::string_view, 3> names = {"binary", "csv", "snapshot"};
  return names.at(static_cast<std::size_t>(format));
}

MAXBATCH_INLINE std::optional<TraceFormat> parse_trace_format(std::string_view text) {
  for (auto const format : {TraceFormat::binary, TraceFormat::csv, TraceFormat::snapshot}) {
    if (to_string(format) == text) { return format; }
  }
  return std::nullopt;
}

MAXBATCH_INLINE std::vector<AllocationTrace> parse_allocation_traces(std::string_view content, std::string const& name,
                                                                     TraceReadOptions const& options) {
  if (content.empty()) { detail::fail_trace(name, "", "is empty"); }
  if (detail::is_gzip(content)) {
    auto const unpacked = detail::unpack_gzip(content, name, options.max_unpacked);
    if (detail::is_gzip(unpacked)) { detail::fail_trace(name, "", "is compressed twice; unpack it once"); }
    return parse_allocation_traces(unpacked, name, options);
  }
  if (auto const told = detail::told_by_its_start(content); !told.empty()) {
    detail::fail_trace(name, "", "is not an allocation trace but " + told);
  }
  if (content.substr(0, detail::kBinaryTraceMagic.size()) == detail::kBinaryTraceMagic) {
    return detail::BinaryTraceReader(content, name).read();
  }
  if (detail::is_pickle(content)) {
    auto const document = detail::PickleReader(content, name, options.max_unpacked).read();
    return detail::MemorySnapshotReader(document, name, content.size()).read();
  }
  if (auto const zero = content.substr(0, 4096).find('\0'); zero != std::string_view::npos) {
    detail::fail_trace(name, detail::at_byte(zero), "is neither an allocation trace nor text");
  }
  std::vector<AllocationTrace> traces;
  traces.push_back(detail::TraceCsvReader(content, name).read());
  return traces;
}

MAXBATCH_INLINE std::vector<AllocationTrace> read_allocation_traces(std::string const& path,
                                                                    TraceReadOptions const& options) {
  return parse_allocation_traces(detail::read_whole_file(path, options.max_unpacked), path, options);
}

MAXBATCH_INLINE AllocationTrace read_allocation_trace(std::string const& path, TraceReadOptions const& options) {
  auto traces = read_allocation_traces(path, options);
  if (traces.size() > 1) {
    std::string devices;
    for (auto const& trace : traces) { devices += (devices.empty() ? "" : ", ") + std::to_string(trace.device_index); }
    detail::fail_trace(path, "", "holds the traces of several devices: " + devices);
  }
  return std::move(traces.front());
}

MAXBATCH_INLINE std::string format_allocation_trace(AllocationTrace const& trace, TraceFormat format) {
  switch (format) {
    case TraceFormat::csv: return detail::format_trace_csv(trace);
    case TraceFormat::snapshot: return detail::MemorySnapshotWriter(trace).write();
    case TraceFormat::binary: break;
  }
  return detail::BinaryTraceWriter().write(trace);
}

MAXBATCH_INLINE void write_allocation_trace(std::string const& path, AllocationTrace const& trace, TraceFormat format) {
  auto content = format_allocation_trace(trace, format);
  constexpr std::string_view ending = ".gz";
  if (path.size() >= ending.size() && path.compare(path.size() - ending.size(), ending.size(), ending) == 0) {
    content = detail::pack_gzip(content);
  }
  auto const partial = path + ".partial";
  errno = 0;
  std::ofstream file(partial, std::ios::binary);
  file << content;
  file.close();
  if (!file || std::rename(partial.c_str(), path.c_str()) != 0) {
    auto const why = detail::system_error_text();
    std::remove(partial.c_str());
    detail::fail_trace(path, "", "cannot be written: " + why);
  }
}

}  // namespace MAXBATCH_ABI_NAMESPACE
}  // namespace maxbatch
