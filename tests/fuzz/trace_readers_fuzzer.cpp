// Feeds bytes to the readers of traces. What they accept is written in each format, read back and compared, and replayed:
// a reader's promise is that what it returns can be worked with.
//
// MAXBATCH_FUZZED_FORMAT in the environment: csv, snapshot or binary; of the last, the header is put in front, checksum
// included, so that what lies behind it is reached. Where the compiler has no libFuzzer, fuzz_driver.cpp calls the function.
#include <maxbatch/simulation/allocator_settings.hpp>
#include <maxbatch/simulation/invalid_allocator_call.hpp>
#include <maxbatch/simulation/replay_preparation.hpp>
#include <maxbatch/simulation/trace_file.hpp>
#include <maxbatch/simulation/trace_replay.hpp>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>

namespace {

using namespace maxbatch;

[[noreturn]] void fail(char const* what) {
  std::fprintf(stderr, "trace_readers_fuzzer: %s\n", what);
  std::abort();
}

/// Of the binary format: header and checksum made right, so that what lies behind them is reached.
std::string made_right(std::string_view content) {
  auto header = format_allocation_trace(AllocationTrace(), TraceFormat::binary).substr(0, detail::kBinaryTraceHeader);
  auto const put = [&](std::size_t at, std::uint64_t value) {
    for (std::size_t i = 0; i < 8; ++i) { header[at + i] = static_cast<char>((value >> (8 * i)) & 0xFF); }
  };
  put(16, content.size());
  put(24, detail::checksum_of(content));
  return header + std::string(content);
}

void write_and_read_back(AllocationTrace const& trace) {
  auto const binary = format_allocation_trace(trace, TraceFormat::binary);
  if (parse_allocation_traces(binary, "binary").front() != trace) { fail("the binary format changed a trace"); }
  try {
    auto const snapshot = format_allocation_trace(trace, TraceFormat::snapshot);
    auto const again = parse_allocation_traces(snapshot, "snapshot");
    if (again.size() != 1 || again.front().events.size() < trace.events.size()) { fail("a snapshot lost events"); }
  } catch (TraceError const&) {}  // a trace that contradicts itself has no snapshot
}

void replay(AllocationTrace const& trace) {
  try {
    auto const program = make_replay_program(trace, "fuzzed");
    ReplayOptions options;
    options.limit = program.held_peak + Bytes{std::int64_t{2} << 20};
    TraceReplay const replay(program, options);
    auto const outcome = replay.run();
    replay.fragmentation(outcome, options.limit);
    replay.run(std::nullopt);
  } catch (TraceError const&) {
  } catch (InvalidAllocatorSettings const&) {}
}

void read(std::string const& content) {
  TraceReadOptions options;
  options.max_unpacked = Bytes{std::int64_t{64} << 20};
  std::vector<AllocationTrace> traces;
  try {
    traces = parse_allocation_traces(content, "fuzzed", options);
  } catch (TraceError const&) { return; }
  if (traces.empty()) { fail("a reader returned no trace and did not say why"); }
  for (auto const& trace : traces) {
    write_and_read_back(trace);
    replay(trace);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size) {
  std::string const content(reinterpret_cast<char const*>(data), size);
  static auto const* const format = std::getenv("MAXBATCH_FUZZED_FORMAT");
  if (format == nullptr) { fail("set MAXBATCH_FUZZED_FORMAT to csv, snapshot or binary"); }
  // What has a header of its own stays as it is.
  auto const has_header = !content.empty() && static_cast<unsigned char>(content[0]) == 0x89;
  read(std::string_view(format) == "binary" && !has_header ? made_right(content) : content);
  return 0;
}
