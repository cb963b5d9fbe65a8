#include "telling_text.hpp"
#include <maxbatch/device/failure_classifier.hpp>

#include <c10/util/Exception.h>
#include <c10/util/Type.h>

#include <cstddef>
#include <new>
#include <typeinfo>
#include <utility>

#include <cxxabi.h>

namespace maxbatch {
namespace {

/// A chain of causes has an end; a broken one must not take us with it.
constexpr std::size_t kMostCauses = 16;

Failure::Cause cause_of(std::exception const& error) {
  Failure::Cause cause;
  cause.type = c10::demangle(typeid(error).name());
  // LibTorch's `what()` looks up the symbols of a backtrace, which would take longer than a small trial.
  auto const* const c10_error = dynamic_cast<c10::Error const*>(&error);
  cause.text = c10_error != nullptr ? c10_error->what_without_backtrace() : error.what();
  cause.text = detail::without_backtrace(std::move(cause.text));
  cause.is_out_of_memory_error = dynamic_cast<c10::OutOfMemoryError const*>(&error) != nullptr;
  // A bad_array_new_length is a bad_alloc too, but of a length that was computed wrongly.
  cause.is_bad_alloc = dynamic_cast<std::bad_alloc const*>(&error) != nullptr &&
                       dynamic_cast<std::bad_array_new_length const*>(&error) == nullptr;
  if (auto const* const accelerator = dynamic_cast<c10::AcceleratorError const*>(&error)) {
    cause.accelerator_error_code = accelerator->get_error_code();
  }
  return cause;
}

/// Only inside a catch block.
Failure::Cause cause_of_current_exception() {
  Failure::Cause cause;
  auto const* const type = abi::__cxa_current_exception_type();
  cause.type = type != nullptr ? c10::demangle(type->name()) : "unknown type";
  cause.text = "not a std::exception";
  return cause;
}

void add_causes(Failure& failure, std::exception const& error) {
  failure.causes.push_back(cause_of(error));
  auto const* const nested = dynamic_cast<std::nested_exception const*>(&error);
  if (nested == nullptr || nested->nested_ptr() == nullptr || failure.causes.size() >= kMostCauses) { return; }
  try {
    nested->rethrow_nested();
  } catch (std::exception const& inner) { add_causes(failure, inner); } catch (...) {
    failure.causes.push_back(cause_of_current_exception());
  }
}

}  // namespace

Failure describe_failure(std::exception const& error) {
  Failure failure;
  add_causes(failure, error);
  return failure;
}

Failure describe_unknown_failure() {
  Failure failure;
  failure.causes.push_back(cause_of_current_exception());
  return failure;
}

}  // namespace maxbatch
