#include "process_switches.hpp"
#include "state_guard_run_all.hpp"
#include <maxbatch/training/state_guard.hpp>

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/ThreadLocalState.h>
#include <ATen/autocast_mode.h>
#include <ATen/detail/CUDAHooksInterface.h>

#include <memory>
#include <vector>

namespace maxbatch {
namespace {

int autocast_nesting() {
  at::autocast::increment_nesting();
  return at::autocast::decrement_nesting();
}

class GlobalStateGuard final : public StateGuard {
 public:
  GlobalStateGuard() { keep_generators(); }

  void restore_structure() override {
    detail::RunAll run;
    run([this] { at::ThreadLocalState::setThreadLocalState(thread_); });
    run([this] { restore_autocast(); });
    run([this] { process_.restore(); });
    for (auto const& generator : generators_) {
      run([&generator] { generator->restore_structure(); });
    }
    run.finish();
  }
  void restore_values() override { restore_structure(); }
  std::vector<NamedTensor> resident_tensors() const override { return {}; }

 private:
  /// What `at::ThreadLocalState` leaves out.
  void restore_autocast() const {
    at::autocast::set_autocast_cache_enabled(autocast_cache_enabled_);
    while (autocast_nesting() > autocast_nesting_) { at::autocast::decrement_nesting(); }
    while (autocast_nesting() < autocast_nesting_) { at::autocast::increment_nesting(); }
  }

  /// A CUDA generator's state lies on the host: reading it wakes no device, and a seed given before the first use of a
  /// device counts too, so all are kept.
  void keep_generators() {
    generators_.push_back(make_state_guard(at::detail::getDefaultCPUGenerator()));
    auto const& cuda = at::detail::getCUDAHooks();
    for (int index = 0; cuda.hasCUDA() && index < cuda.getNumGPUs(); ++index) {
      generators_.push_back(make_state_guard(cuda.getDefaultGenerator(static_cast<c10::DeviceIndex>(index))));
    }
  }

  /// Grad mode, inference mode, autocast and its types, dispatch modes, saved-tensor hooks: all that LibTorch itself
  /// hands from one thread to another.
  at::ThreadLocalState thread_;
  bool autocast_cache_enabled_ = at::autocast::is_autocast_cache_enabled();
  int autocast_nesting_ = autocast_nesting();
  detail::ProcessSwitches process_;
  std::vector<std::unique_ptr<StateGuard>> generators_;
};

}  // namespace

std::unique_ptr<StateGuard> make_global_state_guard() { return std::make_unique<GlobalStateGuard>(); }

}  // namespace maxbatch
