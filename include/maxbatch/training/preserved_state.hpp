#pragma once

#include <maxbatch/training/state_guard.hpp>

#include <functional>
#include <memory>
#include <type_traits>
#include <utility>
#include <vector>

namespace maxbatch {
namespace detail {

/// Handles share what they name, so that a copy of one keeps the state alive.
template <typename State>
struct IsHandle : std::is_base_of<at::TensorBase, State> {};
template <typename Kept>
struct IsHandle<std::shared_ptr<Kept>> : std::true_type {};
template <>
struct IsHandle<at::Generator> : std::true_type {};

}  // namespace detail

/// A list of things to put back: how to make their guards, not the guards. Snapshots are taken when `make_guards` runs.
class PreservedState {
 public:
  /// Shared pointers, tensors and generators are kept; anything else is referred to and must outlive this list.
  template <typename State>
  void preserve(State&& state) {
    using Plain = std::remove_cv_t<std::remove_reference_t<State>>;
    if constexpr (detail::IsHandle<Plain>::value) {
      makers_.push_back([kept = Plain(std::forward<State>(state))] { return make_state_guard(kept); });
    } else {
      static_assert(std::is_lvalue_reference_v<State>, "a temporary would be gone before the search begins");
      makers_.push_back([&state] { return make_state_guard(state); });
    }
  }

  bool empty() const { return makers_.empty(); }

  std::vector<std::unique_ptr<StateGuard>> make_guards() const {
    std::vector<std::unique_ptr<StateGuard>> guards;
    guards.reserve(makers_.size());
    for (auto const& make : makers_) { guards.push_back(make()); }
    return guards;
  }

 private:
  std::vector<std::function<std::unique_ptr<StateGuard>()>> makers_;
};

}  // namespace maxbatch
