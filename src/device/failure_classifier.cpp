#include "failure_text_table.hpp"
#include "telling_text.hpp"
#include <maxbatch/device/failure_classifier.hpp>

#include <array>
#include <string_view>
#include <utility>

namespace maxbatch {
namespace {

using detail::FailureClass;
using detail::FailurePattern;

constexpr std::size_t kLongestType = 100;

/// The numbers of cudaError_t, which c10::AcceleratorError carries.
constexpr int kMemoryAllocation = 2;
constexpr std::array<int, 3> kSizeLimitCodes = {1, 9, 701};  // invalid value, invalid configuration, out of resources
constexpr std::array<int, 11> kStickyCodes = {46, 214, 700, 702, 710, 714, 715, 716, 717, 718, 719};

template <std::size_t size>
constexpr bool contains(std::array<int, size> const& codes, int code) {
  for (auto const known : codes) {
    if (known == code) { return true; }
  }
  return false;
}

std::string_view telling_text(Failure::Cause const& cause) { return detail::without_script_traceback(cause.text); }

/// `decision`, then the type and the first line of what the failure said.
std::string reason_of(std::string decision, Failure::Cause const& cause) {
  auto const line = detail::first_line(telling_text(cause));
  return detail::shortened(
      std::move(decision) + ": " + detail::shortened(cause.type, kLongestType) + ": " + std::string(line),
      kLongestReason);
}

std::string with_note(std::string decision, std::string_view note) {
  if (!note.empty()) { decision.append(" (").append(note).append(")"); }
  return decision;
}

std::optional<Classification> from_type(Failure::Cause const& cause) {
  if (cause.is_out_of_memory_error) {
    return Classification{Verdict::out_of_memory, reason_of("out of memory, by its type", cause)};
  }
  if (cause.is_bad_alloc) {
    return Classification{Verdict::out_of_host_memory, reason_of("out of host memory, by its type", cause)};
  }
  if (!cause.accelerator_error_code) { return std::nullopt; }
  auto const code = *cause.accelerator_error_code;
  auto const by_code = " (error code " + std::to_string(code) + ")";
  if (code == kMemoryAllocation) {
    auto const* const pattern = detail::find_failure_pattern(telling_text(cause));
    if (pattern != nullptr && pattern->means == FailureClass::host_memory) {
      return Classification{Verdict::out_of_host_memory, reason_of("out of host memory" + by_code, cause)};
    }
    return Classification{Verdict::out_of_memory,
                          reason_of("out of memory outside the caching allocator" + by_code, cause)};
  }
  if (contains(kSizeLimitCodes, code)) {
    return Classification{Verdict::size_limit, reason_of("launch or size limit" + by_code, cause)};
  }
  if (contains(kStickyCodes, code)) {
    return Classification{Verdict::device_lost, reason_of("the device is lost" + by_code, cause)};
  }
  return std::nullopt;
}

Classification from_witness(Failure::Cause const& cause, TrialEvidence const& evidence) {
  std::string decision = "out of memory, as the device refused " + std::to_string(evidence.out_of_memory_events) +
                         (evidence.out_of_memory_events == 1 ? " request" : " requests");
  if (evidence.failed_request) {
    decision += ", the last for " + to_string(evidence.failed_request->requested) + " in phase ";
    decision += to_string(evidence.failed_request->phase);
  }
  return {Verdict::out_of_memory, reason_of(std::move(decision) + "; the step failed with", cause)};
}

Classification from_likely_text(FailurePattern const& pattern, Failure::Cause const& cause,
                                TrialEvidence const& evidence) {
  auto const free = evidence.free_at_failure;
  auto const said_free = free ? to_string(*free) + " free" : std::string("free memory unknown");
  if (free && *free <= kLittleFreeMemory) {
    return {Verdict::likely_out_of_memory,
            reason_of(with_note("likely out of memory, " + said_free, pattern.note), cause)};
  }
  return {Verdict::failed, reason_of(with_note("library failure, cause unknown, " + said_free, pattern.note), cause)};
}

Classification from_text(FailurePattern const& pattern, Failure::Cause const& cause, TrialEvidence const& evidence) {
  switch (pattern.means) {
    case FailureClass::memory:
      return {Verdict::out_of_memory, reason_of(with_note("out of memory, by its text", pattern.note), cause)};
    case FailureClass::host_memory:
      return {Verdict::out_of_host_memory,
              reason_of(with_note("out of host memory, by its text", pattern.note), cause)};
    case FailureClass::size_limit:
      return {Verdict::size_limit, reason_of(with_note("launch or size limit", pattern.note), cause)};
    case FailureClass::device_lost:
      return {Verdict::device_lost, reason_of(with_note("the device is lost", pattern.note), cause)};
    case FailureClass::likely_memory: return from_likely_text(pattern, cause, evidence);
    case FailureClass::unknown: break;
  }
  return {Verdict::failed, reason_of(with_note("library failure, cause unknown", pattern.note), cause)};
}

Failure::Cause cause_that_says_nothing() {
  Failure::Cause cause;
  cause.type = "unknown type";
  cause.text = "nothing said";
  return cause;
}

Classification decide(Failure const& failure, TrialEvidence const& evidence) {
  // Texts that no type and no refused request can turn into memory.
  for (auto const& cause : failure.causes) {
    auto const* const pattern = detail::find_failure_pattern(telling_text(cause));
    if (pattern != nullptr && pattern->overrules_evidence) { return from_text(*pattern, cause, evidence); }
  }
  for (auto const& cause : failure.causes) {
    if (auto decided = from_type(cause)) { return *std::move(decided); }
  }
  auto const outermost = failure.causes.empty() ? cause_that_says_nothing() : failure.causes.front();
  if (evidence.out_of_memory_events > 0) { return from_witness(outermost, evidence); }
  for (auto const& cause : failure.causes) {
    if (auto const* const pattern = detail::find_failure_pattern(telling_text(cause))) {
      return from_text(*pattern, cause, evidence);
    }
  }
  return {Verdict::failed, reason_of("not about memory", outermost)};
}

bool answers(std::function<bool()> const& is_alive) {
  if (!is_alive) { return true; }
  try {
    return is_alive();
  } catch (...) {  // NOLINT(bugprone-empty-catch): a check that throws is a device that does not answer
    return false;
  }
}

}  // namespace

Classification classify(Failure const& failure, TrialEvidence const& evidence, std::function<bool()> const& is_alive) {
  auto classification = decide(failure, evidence);
  if (answers(is_alive)) { return classification; }
  if (classification.verdict != Verdict::device_lost) {
    classification.verdict = Verdict::device_lost;
    classification.reason =
        detail::shortened("the device no longer answers; before: " + classification.reason, kLongestReason);
  }
  return classification;
}

}  // namespace maxbatch
