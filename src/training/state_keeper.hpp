#pragma once

#include <maxbatch/training/state_guard.hpp>

#include <memory>
#include <utility>
#include <vector>

namespace maxbatch::detail {

/// The guards of one search, put back on every way out; the last made is put back first.
class StateKeeper {
 public:
  StateKeeper() { guards_.push_back(make_global_state_guard()); }
  ~StateKeeper() {
    if (is_put_back_) { return; }
    try {
      put_back();
    } catch (...) {  // NOLINT(bugprone-empty-catch): another exception is on its way out, and it is the one to see
    }
  }
  StateKeeper(StateKeeper const&) = delete;
  StateKeeper& operator=(StateKeeper const&) = delete;

  void keep(std::vector<std::unique_ptr<StateGuard>> guards) {
    for (auto& guard : guards) { guards_.push_back(std::move(guard)); }
  }

  void restore_structure() {
    for (auto guard = guards_.rbegin(); guard != guards_.rend(); ++guard) { (*guard)->restore_structure(); }
  }
  void restore_values() {
    for (auto guard = guards_.rbegin(); guard != guards_.rend(); ++guard) { (*guard)->restore_values(); }
  }
  void put_back() {
    is_put_back_ = true;
    restore_structure();
    restore_values();
  }

  /// After the device was lost: whatever does not live there. False when something could not be put back.
  bool put_back_what_can_be() noexcept {
    is_put_back_ = true;
    bool all = true;
    for (auto guard = guards_.rbegin(); guard != guards_.rend(); ++guard) {
      try {
        (*guard)->restore_structure();
        (*guard)->restore_values();
      } catch (...) { all = false; }
    }
    return all;
  }

  std::vector<StateGuard::NamedTensor> resident_tensors() const { return gather(&StateGuard::resident_tensors); }
  std::vector<StateGuard::NamedTensor> tensors_kept_by_others() const {
    return gather(&StateGuard::tensors_kept_by_others);
  }

 private:
  using NamedTensors = std::vector<StateGuard::NamedTensor>;

  NamedTensors gather(NamedTensors (StateGuard::*part)() const) const {
    NamedTensors all;
    for (auto const& guard : guards_) {
      auto tensors = (guard.get()->*part)();
      all.insert(all.end(), tensors.begin(), tensors.end());
    }
    return all;
  }

  std::vector<std::unique_ptr<StateGuard>> guards_;
  bool is_put_back_ = false;
};

}  // namespace maxbatch::detail
