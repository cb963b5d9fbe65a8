#pragma once

#include <maxbatch/training/state_guard.hpp>

#include <functional>
#include <memory>
#include <vector>

namespace maxbatch {

/// A list of things to put back: how to make their guards, not the guards. Snapshots are taken when `make_guards` runs.
class PreservedState {
 public:
  /// Handles (shared pointers, tensors, generators) are kept; anything else is referred to and must outlive this list.
  template <typename Kept>
  void preserve(std::shared_ptr<Kept> const& state) {
    makers_.push_back([state] { return make_state_guard(state); });
  }
  void preserve(at::Tensor const& tensor) {
    makers_.push_back([tensor] { return make_state_guard(tensor); });
  }
  void preserve(at::Generator const& generator) {
    makers_.push_back([generator] { return make_state_guard(generator); });
  }
  template <typename State>
  void preserve(State& state) {
    makers_.push_back([&state] { return make_state_guard(state); });
  }
  template <typename State>
  void preserve(State const&& state) = delete;  // a temporary would be gone before the search

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
