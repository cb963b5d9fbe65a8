#pragma once

#include <maxbatch/device/trial_evidence.hpp>
#include <maxbatch/search/trial_outcome.hpp>

#include <exception>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace maxbatch {

/// A failure as plain values: nothing of the exception object is kept, since it may hold tensors.
struct Failure {
  struct Cause {
    std::string type;                     ///< demangled dynamic type
    std::string text;                     ///< what(), without a backtrace where c10 appended one
    bool is_out_of_memory_error = false;  ///< c10::OutOfMemoryError
    bool is_bad_alloc = false;            ///< std::bad_alloc
    std::optional<int> accelerator_error_code;  ///< c10::AcceleratorError
  };
  std::vector<Cause> causes;              ///< outermost first, then the nested ones (std::nested_exception)
};

/// Copies what can be said of `error` and its nested causes.
Failure describe_failure(std::exception const& error);
/// For `catch (...)`: something that is no std::exception.
Failure describe_unknown_failure();

struct Classification {
  Verdict verdict = Verdict::failed;
  std::string reason;  ///< one sentence: what decided, with type and text
};

/// Decides what a failure was, in the order of docs/failures.md: type, evidence of the device, text table, nested causes,
/// alive check. (The repeat at the same size, the last test, is the search's.) Text alone never makes a memory failure of
/// a text that only *usually* means memory: that takes little free memory at the time.
/// `is_alive` is asked once, last; a dead device overrules everything but keeps the cause in the reason.
Classification classify(Failure const& failure, TrialEvidence const& evidence, std::function<bool()> const& is_alive);

}  // namespace maxbatch
