#pragma once

#include <maxbatch/simulation/repeated_steps.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace maxbatch {
namespace detail {
inline namespace MAXBATCH_ABI_NAMESPACE {

/// The operations between the ends of two steps, and the requests that they make.
struct StepRange {
  std::size_t first_operation = 0;
  std::size_t end_operation = 0;
  std::uint32_t first_request = 0;
  std::uint32_t end_request = 0;

  std::uint32_t request_count() const { return end_request - first_request; }
  std::size_t operation_count() const { return end_operation - first_operation; }
};

class StepRepeater {
 public:
  explicit StepRepeater(AllocationProgram const& program) : program_(program) {
    std::vector<std::size_t> ends;
    for (auto const& mark : program.marks) {
      if (mark.kind == TraceMark::Kind::step_end) { ends.push_back(static_cast<std::size_t>(mark.event)); }
    }
    constexpr std::size_t needed = 3;  // the ends of two steps, and where the first of the two begins
    if (ends.size() < needed) { return; }
    before_ = range(ends[ends.size() - 3], ends[ends.size() - 2]);
    last_ = range(ends[ends.size() - 2], ends[ends.size() - 1]);
    repeats_ = make_the_same_requests();
  }

  bool repeats() const { return repeats_; }

  AllocationProgram repeated(std::int64_t count) const {
    auto longer = program_;
    longer.operations.resize(last_.end_operation);
    auto const end = static_cast<std::uint64_t>(last_.end_operation);
    longer.marks.erase(std::remove_if(longer.marks.begin(), longer.marks.end(),
                                      [end](TraceMark const& mark) { return mark.event > end; }),
                       longer.marks.end());
    // Nothing after the last step is made any more, and requests are numbered in the order they are made in.
    longer.requests.resize(last_.end_request);
    auto previous = last_.first_request;
    for (std::int64_t copy = 0; copy < count; ++copy) {
      auto const first = static_cast<std::uint32_t>(longer.requests.size());
      for (auto request = last_.first_request; request < last_.end_request; ++request) {
        longer.requests.push_back(program_.requests[request]);
      }
      for (auto i = last_.first_operation; i < last_.end_operation; ++i) {
        auto operation = program_.operations[i];
        if (operation.request >= last_.first_request) {
          operation.request = first + (operation.request - last_.first_request);
        } else {
          operation.request = previous + (operation.request - before_.first_request);
        }
        longer.operations.push_back(operation);
      }
      previous = first;
    }
    return longer;
  }

 private:
  StepRange range(std::size_t first, std::size_t end) const {
    StepRange range;
    range.first_operation = first;
    range.end_operation = end;
    auto const made_before = [&](std::size_t operation) {
      std::uint32_t made = 0;
      for (std::size_t i = 0; i < operation; ++i) {
        made += program_.operations[i].kind == ProgramOperation::Kind::allocate ? 1U : 0U;
      }
      return made;
    };
    range.first_request = made_before(first);
    range.end_request = made_before(end);
    return range;
  }

  bool make_the_same_requests() const {
    if (before_.request_count() != last_.request_count() || before_.operation_count() != last_.operation_count()) {
      return false;
    }
    for (std::uint32_t i = 0; i < last_.request_count(); ++i) {
      if (!(program_.requests[before_.first_request + i] == program_.requests[last_.first_request + i])) {
        return false;
      }
    }
    for (std::size_t i = 0; i < last_.operation_count(); ++i) {
      auto const& operation = program_.operations[last_.first_operation + i];
      if (operation.kind != program_.operations[before_.first_operation + i].kind) { return false; }
      if (operation.kind == ProgramOperation::Kind::empty_cache) { return false; }
      // What an older step or the set-up made is let go of only once.
      if (operation.request < before_.first_request) { return false; }
    }
    return true;
  }

  AllocationProgram const& program_;
  StepRange before_;
  StepRange last_;
  bool repeats_ = false;
};

}  // namespace MAXBATCH_ABI_NAMESPACE
}  // namespace detail

inline namespace MAXBATCH_ABI_NAMESPACE {

MAXBATCH_INLINE AllocationProgram with_further_steps(AllocationProgram const& program, std::int64_t count) {
  detail::StepRepeater const steps(program);
  return steps.repeats() ? steps.repeated(count) : program;
}

}  // namespace MAXBATCH_ABI_NAMESPACE
}  // namespace maxbatch
