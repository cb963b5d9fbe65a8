#pragma once

#include <maxbatch/bytes.hpp>
#include <maxbatch/device/trial_evidence.hpp>
#include <maxbatch/search/trial_outcome.hpp>

#include <cstddef>
#include <exception>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace maxbatch {

/// A failure as plain values: nothing of the exception object is kept, since it may hold tensors.
struct Failure {
  struct Cause {
    std::string type;                           ///< demangled dynamic type
    std::string text;                           ///< what(), without a backtrace where c10 appended one
    bool is_out_of_memory_error = false;        ///< c10::OutOfMemoryError
    bool is_bad_alloc = false;                  ///< std::bad_alloc
    std::optional<int> accelerator_error_code;  ///< c10::AcceleratorError
  };
  std::vector<Cause> causes;  ///< outermost first, then the nested ones (std::nested_exception)
};

/// Copies what can be said of `error` and its nested causes.
Failure describe_failure(std::exception const& error);
/// For `catch (...)`, inside it: names the type of something that is no std::exception.
Failure describe_unknown_failure();

struct Classification {
  Verdict verdict = Verdict::failed;
  std::string reason;  ///< one sentence: what decided, with type and first line of the text; at most kLongestReason
};

/// In bytes of UTF-8.
constexpr std::size_t kLongestReason = 300;

/// A text that only usually means memory counts as memory up to this much free. What a library takes for itself when it
/// fails that way (a cuBLAS handle with its workspace, lazily loaded kernels, cuDNN's workspace) is tens to a few hundred
/// MiB; with more free than this, something else is the likelier cause.
constexpr Bytes kLittleFreeMemory{std::int64_t{512} << 20};

/// Decides what a failure was, in the order of docs/failures.md:
/// 1. type: c10::OutOfMemoryError, std::bad_alloc, the code of a c10::AcceleratorError, of any cause, outermost first;
/// 2. evidence: the device refused a request in this trial, so it is memory whatever the text says (TorchScript loses
///    the type);
/// 3. text, by one table (src/device/failure_text_table.cpp), of any cause, outermost first; of TorchScript's text only
///    the inner message. A text that only *usually* means memory, the bare words "out of memory" of unknown origin
///    included, needs little free memory at the time (kLittleFreeMemory), else it is Verdict::failed, cause unknown;
/// 4. alive check: asked once, last; a dead device overrules everything but keeps the cause in the reason. Empty: not
///    asked.
/// Before all that, texts that never are memory, whatever stands beside them: sticky faults (illegal access, device-side
/// asserts) and sizes that no memory would satisfy ("more than 1EB", negative sizes).
/// The repeat at the same size, the last test of docs/failures.md, is the search's.
/// Threads: any.
Classification classify(Failure const& failure, TrialEvidence const& evidence, std::function<bool()> const& is_alive);

}  // namespace maxbatch
