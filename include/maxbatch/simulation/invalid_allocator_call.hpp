#pragma once

#include <maxbatch/config.hpp>

#include <stdexcept>

namespace maxbatch {
inline namespace MAXBATCH_ABI_NAMESPACE {

/// A block was freed that the program does not hold, and the like: misuse of the simulator.
class InvalidAllocatorCall : public std::logic_error {
 public:
  using std::logic_error::logic_error;
};

}  // namespace MAXBATCH_ABI_NAMESPACE
}  // namespace maxbatch
