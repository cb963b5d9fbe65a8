#pragma once

#include <maxbatch/config.hpp>

#include <stdexcept>

namespace maxbatch {
inline namespace MAXBATCH_ABI_NAMESPACE {

/// Misuse: an argument that cannot be right. The text names the value and what to do.
class InvalidArgument : public std::invalid_argument {
 public:
  using std::invalid_argument::invalid_argument;
};

/// A trial reported a fit, but no step had run: "it fits" would be said of nothing.
class StepNeverRan : public std::logic_error {
 public:
  using std::logic_error::logic_error;
};

}  // namespace MAXBATCH_ABI_NAMESPACE
}  // namespace maxbatch
