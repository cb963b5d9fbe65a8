#pragma once

#include <maxbatch/bytes.hpp>
#include <maxbatch/config.hpp>
#include <maxbatch/simulation/allocation_trace.hpp>
#include <maxbatch/simulation/device_address.hpp>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace maxbatch {
inline namespace MAXBATCH_ABI_NAMESPACE {

/// What a program asks of the allocator. `size` is bytes before rounding.
struct ProgramRequest {
  std::int64_t size = 0;
  std::uint32_t label = 0;    // into AllocationProgram::labels
  std::uint16_t stream = 0;   // into AllocationProgram::streams
  std::uint8_t pool = 0;      // into AllocationProgram::pools
  bool is_workspace = false;  // a library asked for it and does with less when it is refused: a convolution's scratch

  friend bool operator==(ProgramRequest const& a, ProgramRequest const& b) {
    return a.size == b.size && a.label == b.label && a.stream == b.stream && a.pool == b.pool &&
           a.is_workspace == b.is_workspace;
  }
};

struct ProgramOperation {
  enum class Kind : std::uint8_t {
    allocate,
    free,           ///< let go of, and free at once
    request_free,   ///< let go of, while another stream still uses it
    complete_free,  ///< the other streams are done
    empty_cache     ///< torch::cuda::empty_cache; `request` means nothing
  };

  Kind kind = Kind::allocate;
  std::uint32_t request = 0;

  friend bool operator==(ProgramOperation a, ProgramOperation b) { return a.kind == b.kind && a.request == b.request; }
};

/// The program's side of a recording: requests and frees in their order, without what the allocator made of them. What can
/// be asked again under another limit, with other settings, at another batch size.
struct AllocationProgram {
  static constexpr std::uint32_t kNever = 0xFFFFFFFF;

  std::vector<ProgramRequest> requests;      // in the order that they are made in
  std::vector<ProgramOperation> operations;  // the i-th `allocate` makes request i
  std::vector<TraceMark> marks;              // TraceMark::event counts operations; statistics are the recording's
  std::vector<std::uint64_t> streams = {0};
  std::vector<std::string> labels = {""};
  std::vector<PrivatePoolId> pools = {{0, 0}};

  friend bool operator==(AllocationProgram const& a, AllocationProgram const& b) {
    return a.requests == b.requests && a.operations == b.operations && a.marks == b.marks && a.streams == b.streams &&
           a.labels == b.labels && a.pools == b.pools;
  }
};

/// Reads the program out of a recording. Refused requests are left out (what the program asked in their place is there),
/// and a cache that was emptied without a request behind it was emptied by the program. Blocks that existed before the
/// first event are asked for first.
/// Throws: TraceError where a block is freed that nothing allocated, or handed out twice.
AllocationProgram program_of(AllocationTrace const& trace);

/// When each request is made and let go of.
struct RequestLifetime {
  std::uint32_t begins = 0;                        // index of its `allocate` in AllocationProgram::operations
  std::uint32_t ends = AllocationProgram::kNever;  // of its `free` or `request_free`
  bool is_freed() const { return ends != AllocationProgram::kNever; }
  /// Freed by the very next operation, as a library's scratch is.
  bool is_momentary() const { return ends == begins + 1; }
};
std::vector<RequestLifetime> lifetimes_of(AllocationProgram const& program);

/// The largest sum of live requests, each rounded up to 512 bytes: no allocator needs less. `without_workspaces`: of all
/// but those.
Bytes least_peak(AllocationProgram const& program, bool without_workspaces = false);

}  // namespace MAXBATCH_ABI_NAMESPACE
}  // namespace maxbatch

#if !defined(MAXBATCH_COMPILED_LIB)
#include <maxbatch/impl/simulation/allocation_program_inl.hpp>
#endif
