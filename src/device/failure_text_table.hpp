#pragma once

#include <cstddef>
#include <string_view>

namespace maxbatch::detail {

enum class FailureClass {
  memory,         ///< device memory, inside or outside LibTorch's allocator
  host_memory,    ///< ordinary or pinned host memory
  likely_memory,  ///< usually memory: needs little free memory beside it
  size_limit,     ///< a launch, index or argument limit
  device_lost,    ///< sticky: nothing more runs in this process
  unknown         ///< the text hides its cause
};

/// One thing that a failure's text may say.
struct FailurePattern {
  std::string_view text;  ///< verbatim part, case-sensitive
  std::string_view also;  ///< a second part that must be there too; empty: none
  FailureClass means = FailureClass::unknown;
  bool overrules_evidence = false;  ///< true even of an out-of-memory error type, or beside refused requests
  std::string_view note;            ///< what is behind it, for the reason that a person reads
};

struct FailurePatterns {
  FailurePattern const* first;
  std::size_t count;
  FailurePattern const* begin() const { return first; }
  FailurePattern const* end() const { return first + count; }
};

/// The table, most telling first: the first row that is found decides.
FailurePatterns failure_patterns();

/// Null: no row is in `text`.
FailurePattern const* find_failure_pattern(std::string_view text);

}  // namespace maxbatch::detail
