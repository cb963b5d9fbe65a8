#pragma once

#include "report_page.hpp"

#include <cstdint>

namespace maxbatch::dry {

/// A library's answer to how much scratch memory it wants.
struct ScratchAnswer {
  MemorySource source = MemorySource::estimate;
  std::int64_t bytes = 0;
  std::int64_t low_bytes = 0;  ///< what a card may answer instead; the same as `bytes` where that is certain
  std::int64_t high_bytes = 0;
};

ScratchAnswer certain(MemorySource source, std::int64_t bytes);

/// Counts an answer for the report. What rests on rules that an H200 was asked for is an estimate on any other card. Any thread.
void count_scratch_answer(ScratchAnswer answer);

/// The same, for a library that is handed the memory in a call that we do not see: the calling thread's next allocation of
/// just so many bytes will be that memory.
void expect_scratch(ScratchAnswer answer);

/// The program handed the memory over: it begins at `memory`, which is on the current device.
void scratch_is_at(ScratchAnswer answer, void const* memory);

}  // namespace maxbatch::dry
