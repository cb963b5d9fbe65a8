#pragma once

#include <stdexcept>

namespace maxbatch::cli {

/// An argument that cannot be right: one sentence with the argument, its value and what to do.
class UsageError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

}  // namespace maxbatch::cli
