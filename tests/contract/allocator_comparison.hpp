#pragma once

#include "allocator_program.hpp"

#include <cstdint>
#include <string>

namespace maxbatch::test {

struct ComparisonTotals {
  std::int64_t programs = 0;
  std::int64_t calls = 0;
  std::int64_t events = 0;
  std::int64_t refusals = 0;
  std::int64_t retries = 0;
};

/// Runs a program on LibTorch's allocator, then on a simulator that is given the addresses that were bought, and compares
/// every event, every answer, and every statistic after every call. The first difference in words; empty: none.
std::string compare(AllocatorProgram const& program, ComparisonTotals* totals = nullptr);

/// A program that still differs, with no call that could be left out.
AllocatorProgram shrink(AllocatorProgram program);

}  // namespace maxbatch::test
