#pragma once

#include <exception>
#include <utility>

namespace maxbatch::detail {

/// Runs parts that must all be tried: one that throws does not keep the others from running. The first exception leaves
/// in `finish`.
class RunAll {
 public:
  template <typename Part>
  void operator()(Part&& part) {
    try {
      std::forward<Part>(part)();
    } catch (...) {
      if (!first_) { first_ = std::current_exception(); }
    }
  }

  void finish() const {
    if (first_) { std::rethrow_exception(first_); }
  }

 private:
  std::exception_ptr first_;
};

}  // namespace maxbatch::detail
