#include "state_guard_run_all.hpp"
#include <maxbatch/training/state_guard.hpp>

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Context.h>
#include <ATen/ThreadLocalState.h>
#include <ATen/autocast_mode.h>
#include <ATen/detail/CUDAHooksInterface.h>
#include <c10/core/DefaultDtype.h>
#include <c10/util/Exception.h>
#include <torch/csrc/autograd/anomaly_mode.h>

#include <array>
#include <functional>
#include <utility>

namespace maxbatch {
namespace {

using at::Context;
using at::Float32Backend;
using at::Float32Op;
using at::Float32Precision;

/// LibTorch calls the older half of the precision switches deprecated. We have to use both halves, and print nothing.
class SilentWarnings : public c10::WarningHandler {
 public:
  void process(c10::Warning const& /*warning*/) override {}
};

/// TF32 and its kin. LibTorch has two sets of switches for it, an older one (`allow_tf32`, "matmul precision") and a
/// newer one by backend and operator, and a program may have left them contradicting each other.
///
/// Note [Reading precision switches]
/// No getter gives a switch as it was set: the newer ones fall back from the operator to the backend to all backends
/// where a switch is NONE, and the older ones throw where the two sets disagree. So the newer ones are read from the most
/// general to the most special, each while those that it would fall back to are NONE, and the older ones while the newer
/// ones are IEEE. Everything is put back at once; meanwhile precision is never lower than it was.
class Float32Switches {
 public:
  static Float32Switches read(Context& context) {
    Float32Switches read;
    read.at(Float32Backend::GENERIC, Float32Op::ALL) = take(context, Float32Backend::GENERIC, Float32Op::ALL);
    for (auto const backend : {Float32Backend::CUDA, Float32Backend::MKLDNN}) {
      read.at(backend, Float32Op::ALL) = take(context, backend, Float32Op::ALL);
      for (auto const op : {Float32Op::CONV, Float32Op::RNN, Float32Op::MATMUL}) {
        read.at(backend, op) = take(context, backend, op);
        context.setFloat32Precision(backend, op, Float32Precision::IEEE);
      }
    }
    // Every operator is at IEEE now, with which "highest" and "no TF32" of the older ones agree.
    c10::WarningUtils::WarningHandlerGuard const silence(silent());
    read.matmul_ = context.float32MatmulPrecision();
    try {
      read.cudnn_ = context.allowTF32CuDNN();
    } catch (c10::Error const&) {
      read.cudnn_ = true;  // it throws because it disagrees
    }
    read.write_newer(context);
    return read;
  }

  /// The older setters change the newer switches too, so those come last.
  void write(Context& context) const {
    c10::WarningUtils::WarningHandlerGuard const silence(silent());
    static constexpr std::array<char const*, 3> kNames = {"highest", "high", "medium"};
    context.setFloat32MatmulPrecision(kNames.at(static_cast<std::size_t>(matmul_)));
    context.setAllowTF32CuDNN(cudnn_);
    write_newer(context);
  }

  friend bool operator==(Float32Switches const& a, Float32Switches const& b) {
    return a.newer_ == b.newer_ && a.matmul_ == b.matmul_ && a.cudnn_ == b.cudnn_;
  }

 private:
  using Key = std::pair<Float32Backend, Float32Op>;
  static constexpr std::size_t kBackends = 3;
  static constexpr std::size_t kOps = 4;

  static c10::WarningHandler* silent() {
    static SilentWarnings handler;
    return &handler;
  }

  /// Reads a switch and leaves it at NONE.
  static Float32Precision take(Context& context, Float32Backend backend, Float32Op op) {
    auto const precision = context.float32Precision(backend, op);
    context.setFloat32Precision(backend, op, Float32Precision::NONE);
    return precision;
  }

  Float32Precision& at(Float32Backend backend, Float32Op op) {
    return newer_.at(static_cast<std::size_t>(backend)).at(static_cast<std::size_t>(op));
  }

  void write_newer(Context& context) const {
    for (std::size_t backend = 0; backend < kBackends; ++backend) {
      for (std::size_t op = 0; op < kOps; ++op) {
        auto const key = Key(static_cast<Float32Backend>(backend), static_cast<Float32Op>(op));
        if (key.first == Float32Backend::GENERIC && key.second != Float32Op::ALL) { continue; }
        context.setFloat32Precision(key.first, key.second, newer_.at(backend).at(op));
      }
    }
  }

  std::array<std::array<Float32Precision, kOps>, kBackends> newer_ = {};
  at::Float32MatmulPrecision matmul_ = at::Float32MatmulPrecision::HIGHEST;
  bool cudnn_ = true;
};

int autocast_nesting() {
  at::autocast::increment_nesting();
  return at::autocast::decrement_nesting();
}

class GlobalStateGuard final : public StateGuard {
 public:
  GlobalStateGuard() {
    keep_context();
    keep([] { return c10::get_default_dtype(); }, [](caffe2::TypeMeta before) { c10::set_default_dtype(before); });
    using torch::autograd::AnomalyMode;
    keep([] { return std::pair(AnomalyMode::is_enabled(), AnomalyMode::should_check_nan()); },
         [](std::pair<bool, bool> before) { AnomalyMode::set_enabled(before.first, before.second); });
    keep(&at::autocast::is_autocast_cache_enabled, &at::autocast::set_autocast_cache_enabled);
    keep(&autocast_nesting, [](int before) {
      while (autocast_nesting() > before) { at::autocast::decrement_nesting(); }
      while (autocast_nesting() < before) { at::autocast::increment_nesting(); }
    });
    keep_generators();
  }

  void restore_structure() override {
    detail::RunAll run;
    run([this] { at::ThreadLocalState::setThreadLocalState(thread_); });
    for (auto const& restore : restores_) { run(restore); }
    for (auto const& generator : generators_) {
      run([&generator] { generator->restore_structure(); });
    }
    // Casts of weights that a trial made: memory, and soon values of other weights.
    run([] { at::autocast::clear_cache(); });
    run.finish();
  }
  void restore_values() override { restore_structure(); }
  std::vector<NamedTensor> resident_tensors() const override { return {}; }

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
  std::vector<std::function<void()>> restores_;
  std::vector<std::unique_ptr<StateGuard>> generators_;
};

}  // namespace

std::unique_ptr<StateGuard> make_global_state_guard() { return std::make_unique<GlobalStateGuard>(); }

}  // namespace maxbatch
