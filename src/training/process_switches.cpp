#include "process_switches.hpp"

#include "float32_switches.hpp"
#include "state_guard_run_all.hpp"

#include <ATen/Context.h>
#include <ATen/autocast_mode.h>
#include <c10/core/DefaultDtype.h>
#include <torch/csrc/autograd/anomaly_mode.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

namespace maxbatch::detail {

class ProcessSwitches::AsRead {
 public:
  AsRead() {
    keep([] { return c10::get_default_dtype(); }, [](caffe2::TypeMeta before) { c10::set_default_dtype(before); });
    using torch::autograd::AnomalyMode;
    keep([] { return std::pair(AnomalyMode::is_enabled(), AnomalyMode::should_check_nan()); },
         [](std::pair<bool, bool> before) { AnomalyMode::set_enabled(before.first, before.second); });
    keep_context();
  }

  void restore() {
    is_owed = false;
    RunAll run;
    for (auto const& restore : restores_) { run(restore); }
    // Casts of weights that a trial made: memory, and soon values of other weights.
    run([] { at::autocast::clear_cache(); });
    run.finish();
  }

  bool is_owed = false;  ///< somebody wanted them back and was not alone

 private:
  /// Setters are called only where something changed: some check or warn.
  template <typename Get, typename Set>
  void keep(Get get, Set set) {
    restores_.emplace_back([get, set, before = get()] {
      if (!(get() == before)) { set(before); }
    });
  }

  template <typename Get, typename Set>
  void keep_flag(Get get, Set set) {
    keep([get] { return std::invoke(get, at::globalContext()); },
         [set](auto const& before) { std::invoke(set, at::globalContext(), before); });
  }

  void keep_context() {
    using at::Context;
    keep_flag(&Context::userEnabledCuDNN, &Context::setUserEnabledCuDNN);
    keep_flag(&Context::benchmarkCuDNN, &Context::setBenchmarkCuDNN);
    keep_flag(&Context::benchmarkLimitCuDNN, &Context::setBenchmarkLimitCuDNN);
    keep_flag(&Context::deterministicCuDNN, &Context::setDeterministicCuDNN);
    keep_flag(&Context::userEnabledMkldnn, &Context::setUserEnabledMkldnn);
    keep_flag(&Context::deterministicMkldnn, &Context::setDeterministicMkldnn);
    keep_flag(&Context::allowTF32OneDNN, &Context::setAllowTF32OneDNN);
    keep_flag(&Context::userEnabledNNPACK, &Context::setUserEnabledNNPACK);
    keep_flag(&Context::deterministicFillUninitializedMemory, &Context::setDeterministicFillUninitializedMemory);
    keep_flag(&Context::userEnabledFlashSDP, &Context::setSDPUseFlash);
    keep_flag(&Context::userEnabledFA3SDP, &Context::setSDPUseFA3);
    keep_flag(&Context::userEnabledMemEfficientSDP, &Context::setSDPUseMemEfficient);
    keep_flag(&Context::userEnabledMathSDP, &Context::setSDPUseMath);
    keep_flag(&Context::userEnabledCuDNNSDP, &Context::setSDPUseCuDNN);
    keep_flag(&Context::userEnabledOverrideableSDP, &Context::setSDPUseOverrideable);
    keep_flag(&Context::allowFP16BF16ReductionMathSDP, &Context::setAllowFP16BF16ReductionMathSDP);
    keep_flag(&Context::linalgPreferredBackend, &Context::setLinalgPreferredBackend);
    keep_flag(&Context::blasPreferredBackend, &Context::setBlasPreferredBackend);
    keep_flag(&Context::allowFP16AccumulationCuBLAS, &Context::setAllowFP16AccumulationCuBLAS);
    keep_flag(&Context::allowFP16ReductionCPU, &Context::setAllowFP16ReductionCPU);
    keep_flag(&Context::_SMCarveout_EXPERIMENTAL, &Context::_setSMCarveout_EXPERIMENTAL);

    auto& context = at::globalContext();
    keep([&context] { return std::pair(context.deterministicAlgorithms(), context.deterministicAlgorithmsWarnOnly()); },
         [&context](std::pair<bool, bool> before) { context.setDeterministicAlgorithms(before.first, before.second); });
    keep([&context] { return context.sDPPriorityOrder(); },
         [&context](auto const& before) {
           std::vector<std::int64_t> order;
           order.reserve(before.size());
           for (auto const backend : before) { order.push_back(static_cast<std::int64_t>(backend)); }
           context.setSDPPriorityOrder(order);
         });
    using Reduction = at::CuBLASReductionOption;
    auto const reduced = [](Reduction option) { return option == Reduction::AllowReducedPrecisionWithSplitK; };
    auto const split = [](Reduction option) { return option != Reduction::DisallowReducedPrecisionDisallowSplitK; };
    keep([&context] { return context.allowFP16ReductionCuBLAS(); },
         [=, &context](Reduction before) { context.setAllowFP16ReductionCuBLAS(reduced(before), split(before)); });
    keep([&context] { return context.allowBF16ReductionCuBLAS(); },
         [=, &context](Reduction before) { context.setAllowBF16ReductionCuBLAS(reduced(before), split(before)); });
    keep([&context] { return Float32Switches::read(context); },
         [&context](Float32Switches const& before) { before.write(context); });
  }

  std::vector<std::function<void()>> restores_;
};

namespace {

/// Who is alive, oldest first, by the thread that made it.
struct Alive {
  struct One {
    ProcessSwitches const* switches = nullptr;
    std::thread::id thread;
    std::shared_ptr<ProcessSwitches::AsRead> as_read;
  };

  static Alive& of_process() {
    static auto* const instance = new Alive;  // never destroyed: a guard may live as long as a static object
    return *instance;
  }

  std::vector<One>::iterator place_of(ProcessSwitches const& switches) {
    return std::find_if(all.begin(), all.end(), [&](One const& one) { return one.switches == &switches; });
  }

  One const* of_another_thread_than(std::thread::id thread) const {
    auto const found = std::find_if(all.begin(), all.end(), [&](One const& one) { return one.thread != thread; });
    return found == all.end() ? nullptr : &*found;
  }

  std::mutex mutex;
  std::vector<One> all;
};

}  // namespace

ProcessSwitches::ProcessSwitches() {
  auto& alive = Alive::of_process();
  std::lock_guard<std::mutex> const lock(alive.mutex);
  auto const thread = std::this_thread::get_id();
  auto const* const other = alive.of_another_thread_than(thread);
  as_read_ = other != nullptr ? other->as_read : std::make_shared<AsRead>();
  alive.all.push_back({this, thread, as_read_});
}

ProcessSwitches::~ProcessSwitches() {
  auto& alive = Alive::of_process();
  std::lock_guard<std::mutex> const lock(alive.mutex);
  alive.all.erase(alive.place_of(*this));
  bool const is_shared = as_read_.use_count() > 1;  // all who share it are among those alive
  if (is_shared || !as_read_->is_owed) { return; }
  try {
    as_read_->restore();
  } catch (...) {  // NOLINT(bugprone-empty-catch): nobody is left to hear of it
  }
}

void ProcessSwitches::restore() {
  auto& alive = Alive::of_process();
  std::lock_guard<std::mutex> const lock(alive.mutex);
  if (alive.of_another_thread_than(alive.place_of(*this)->thread) != nullptr) {
    as_read_->is_owed = true;
    return;
  }
  as_read_->restore();
}

}  // namespace maxbatch::detail
