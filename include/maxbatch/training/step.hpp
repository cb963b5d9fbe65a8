#pragma once

#include <maxbatch/training/trial.hpp>

#include <c10/core/Device.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <type_traits>
#include <utility>

namespace maxbatch {

/// One training step on whatever the trial says. Called several times a trial.
using Step = std::function<void(Trial&)>;

struct PreparedStep;

/// Which callables are steps and which are factories of steps; nothing here runs anything.
namespace detail {

/// Converts to a 64-bit integer and to nothing else, so that a callable that takes a narrower one is not a step:
/// `[](int batch_size) {…}` would silently cut large sizes.
struct ExactBatchSize {
  std::int64_t value;
  template <typename Integer, typename = std::enable_if_t<std::is_integral_v<Integer> && sizeof(Integer) == 8>>
  operator Integer() const {  // NOLINT(google-explicit-constructor): stands for an argument
    return static_cast<Integer>(value);
  }
};

template <typename Callable>
constexpr bool takes_trial = std::is_invocable_v<Callable&, Trial&>;

template <typename Callable>
constexpr bool takes_device = std::is_invocable_v<Callable&, c10::Device>;

template <typename Callable>
constexpr bool takes_batch_size() {
  if constexpr (takes_trial<Callable>) {
    return false;  // `Trial&` wins when both fit
  } else {
    return std::is_invocable_v<Callable&, ExactBatchSize>;
  }
}

template <typename Callable>
constexpr bool is_step = takes_trial<Callable> || takes_batch_size<Callable>();

template <typename Callable>
constexpr bool makes_step() {
  if constexpr (is_step<Callable> || !takes_device<Callable>) {
    return false;
  } else {
    using Made = std::decay_t<std::invoke_result_t<Callable&, c10::Device>>;
    return std::is_same_v<Made, PreparedStep> || is_step<Made>;
  }
}

/// Keeps an rvalue callable (move-only ones too), refers to an lvalue one: the user's own object runs, not a copy of it.
template <typename Callable>
auto shared_callable(Callable&& callable) {
  using Plain = std::remove_reference_t<Callable>;
  if constexpr (std::is_lvalue_reference_v<Callable>) {
    return std::shared_ptr<Plain>(std::addressof(callable), [](Plain*) {});
  } else {
    return std::make_shared<Plain>(std::forward<Callable>(callable));
  }
}

template <typename Callable>
Step make_step(Callable&& callable) {
  using Plain = std::remove_reference_t<Callable>;
  static_assert(
      is_step<Plain>,
      "a step takes `maxbatch::Trial&` or `std::int64_t batch_size`; a narrower integer would cut large sizes");
  return [held = shared_callable(std::forward<Callable>(callable))](Trial& trial) {
    if constexpr (takes_trial<Plain>) {
      (*held)(trial);
    } else {
      (*held)(trial.batch_size());
    }
  };
}

}  // namespace detail
}  // namespace maxbatch
