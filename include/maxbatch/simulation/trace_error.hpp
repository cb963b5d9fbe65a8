#pragma once

#include <maxbatch/config.hpp>

#include <stdexcept>

namespace maxbatch {
inline namespace MAXBATCH_ABI_NAMESPACE {

/// A trace that cannot be read, written or replayed. The text says which one, where in it, and what was wrong:
/// "swin.csv: line 7: size 'abc' is not a whole number".
class TraceError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

}  // namespace MAXBATCH_ABI_NAMESPACE
}  // namespace maxbatch
