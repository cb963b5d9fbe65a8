#pragma once

#include <maxbatch/bytes.hpp>
#include <maxbatch/config.hpp>
#include <maxbatch/simulation/allocation_trace.hpp>
#include <maxbatch/simulation/trace_error.hpp>

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace maxbatch {
inline namespace MAXBATCH_ABI_NAMESPACE {

enum class TraceFormat {
  binary,   ///< our own: everything that a trace holds, about 8 bytes an event, with a checksum
  csv,      ///< action,address,size,stream, and marks between them; no labels, times, pools or initial segments
  snapshot  ///< PyTorch's memory snapshot, as torch.cuda.memory._dump_snapshot() writes it: a pickle
};
/// "binary", "csv" or "snapshot"
std::string_view to_string(TraceFormat format);
std::optional<TraceFormat> parse_trace_format(std::string_view text);

struct TraceReadOptions {
  /// What is larger is refused: a file, what a compressed one unpacks to, and what the objects of a snapshot take.
  Bytes max_unpacked = Bytes{std::int64_t{4} << 30};
};

/// The traces in a file, one for each device that has any events or segments; at least one. What the file is, is told
/// from its content: binary, CSV or snapshot, each as it is or compressed with gzip.
///
/// A snapshot is read as data: what would call code (a pickle can) is refused by name. Where its history was cut short
/// (max_entries) or started late, what existed before it is worked out backwards from the segments at the end.
/// Throws: TraceError.
std::vector<AllocationTrace> read_allocation_traces(std::string const& path, TraceReadOptions const& options = {});
/// The same of the content of a file, which errors call `name`.
std::vector<AllocationTrace> parse_allocation_traces(std::string_view content, std::string const& name,
                                                     TraceReadOptions const& options = {});
/// The one trace in a file.  Throws: TraceError, also where there are several devices' traces.
AllocationTrace read_allocation_trace(std::string const& path, TraceReadOptions const& options = {});

/// The content of a file that holds `trace`.  Throws: TraceError for what the format has no place for.
std::string format_allocation_trace(AllocationTrace const& trace, TraceFormat format);
/// Written beside `path` and then renamed, so that no half of a file is left; compressed if the name ends in ".gz".
/// Throws: TraceError.
void write_allocation_trace(std::string const& path, AllocationTrace const& trace, TraceFormat format);

}  // namespace MAXBATCH_ABI_NAMESPACE
}  // namespace maxbatch

#if !defined(MAXBATCH_COMPILED_LIB)
#include <maxbatch/impl/simulation/trace_file_inl.hpp>
#endif
