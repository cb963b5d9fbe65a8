#pragma once

#include <cstdint>
#include <random>
#include <string>
#include <vector>

namespace maxbatch::test {

/// One call on a caching allocator. Blocks are named by the number of the request that they came from, streams and pools
/// by small numbers; a call that makes no sense when its turn comes (a block was refused, a pool is gone) is left out.
struct AllocatorCall {
  enum class Kind {
    allocate,
    free,
    record_stream,
    synchronise,  // a stream; the events on it are done
    empty_cache,
    set_limit,
    set_settings,
    begin_pool,  // for one stream, or for all: -1
    end_pool,
    release_pool,
    incref_pool,
    empty_pool,
    use_on_oom,
    no_split,
    reset_peaks,
    reset_sums
  };

  Kind kind = Kind::allocate;
  std::uint64_t bytes = 0;  // of a request
  int block = 0;
  int stream = 0;
  int pool = 0;
  bool flag = false;  // of use_on_oom; of record_stream: during a capture, too
  /// Of a limit: none, or so many bytes above what is reserved then.
  bool limited = false;
  std::int64_t above_reserved = 0;
  std::string settings;
};

std::string to_string(AllocatorCall const& call);

struct AllocatorProgram {
  std::string settings;
  bool holds_events = false;  // events are done when their stream is synchronised; otherwise at once
  std::vector<AllocatorCall> calls;
};

std::string to_string(AllocatorProgram const& program);

/// What programs consist of. Each program draws its own mixture.
AllocatorProgram random_program(std::uint64_t seed);

constexpr int kMostStreams = 4;
constexpr int kMostPools = 3;

}  // namespace maxbatch::test
