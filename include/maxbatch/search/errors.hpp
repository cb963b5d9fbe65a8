#pragma once

#include <maxbatch/config.hpp>

#include <cstdint>
#include <stdexcept>
#include <string>

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

namespace detail {
inline namespace MAXBATCH_ABI_NAMESPACE {

inline void require_at_least_one(std::int64_t value, char const* name) {
  if (value < 1) {
    throw InvalidArgument(std::string(name) + " is " + std::to_string(value) + "; it must be at least 1");
  }
}

}  // namespace MAXBATCH_ABI_NAMESPACE
}  // namespace detail
}  // namespace maxbatch
