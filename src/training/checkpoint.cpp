#include <maxbatch/training/checkpoint.hpp>

#include <ATen/Context.h>
#include <ATen/autocast_mode.h>
#include <torch/torch.h>

#include <mutex>
#include <utility>

namespace maxbatch {
namespace {

/// A generator's state, on the host for every kind of generator.
class RandomState {
 public:
  explicit RandomState(at::Generator generator) : generator_(std::move(generator)), state_(current()) {}

  /// Runs `work` from this state; afterwards the generator is as it was before.
  template <typename Work>
  auto rerun(Work const& work) const {
    struct PutBack {
      ~PutBack() { of.set(before); }
      RandomState const& of;
      at::Tensor before;
    };
    PutBack const put_back{*this, current()};
    set(state_);
    return work();
  }

 private:
  at::Tensor current() const {
    std::lock_guard<std::mutex> const lock(generator_.mutex());
    return generator_.get_state();
  }
  void set(at::Tensor const& state) const {
    std::lock_guard<std::mutex> const lock(generator_.mutex());
    generator_.set_state(state);
  }

  mutable at::Generator generator_;
  at::Tensor state_;
};

/// Autocast of one device type, as it is on this thread.
struct Autocast {
  explicit Autocast(c10::DeviceType type)
      : device_type(type),
        enabled(at::autocast::is_autocast_enabled(type)),
        dtype(at::autocast::get_autocast_dtype(type)) {}

  c10::DeviceType device_type;
  bool enabled;
  at::ScalarType dtype;
};

/// Puts a thread under an autocast of before, until destruction: the backward pass runs outside of it, and on a thread
/// of its own. The casts that it caches are dropped at the end.
class AutocastGuard {
 public:
  explicit AutocastGuard(Autocast const& wanted) : before_(wanted.device_type) {
    at::autocast::increment_nesting();
    set(wanted);
  }
  ~AutocastGuard() {
    if (at::autocast::decrement_nesting() == 0) { at::autocast::clear_cache(); }
    set(before_);
  }
  AutocastGuard(AutocastGuard const&) = delete;
  AutocastGuard& operator=(AutocastGuard const&) = delete;

 private:
  static void set(Autocast const& autocast) {
    at::autocast::set_autocast_dtype(autocast.device_type, autocast.dtype);
    at::autocast::set_autocast_enabled(autocast.device_type, autocast.enabled);
  }
  Autocast before_;
};

/// Casts of weights that autocast caches would outlive the block, until the end of the whole forward pass.
class NoCastCacheGuard {
 public:
  NoCastCacheGuard() : before_(at::autocast::is_autocast_cache_enabled()) {
    at::autocast::set_autocast_cache_enabled(false);
  }
  ~NoCastCacheGuard() { at::autocast::set_autocast_cache_enabled(before_); }
  NoCastCacheGuard(NoCastCacheGuard const&) = delete;
  NoCastCacheGuard& operator=(NoCastCacheGuard const&) = delete;

 private:
  bool before_;
};

/// How to run a function as it ran the first time.
struct Rerun : torch::CustomClassHolder {
  Rerun(CheckpointedFunction a_function, c10::Device device)
      : function(std::move(a_function)),
        autocast(device.type()),
        of_cpu(at::globalContext().defaultGenerator(c10::Device(c10::kCPU))) {
    if (!device.is_cpu()) { of_device.emplace(at::globalContext().defaultGenerator(device)); }
  }

  at::Tensor operator()(std::vector<at::Tensor> const& inputs) const {
    AutocastGuard const guard(autocast);
    auto const run = [&] { return of_cpu.rerun([&] { return function(inputs); }); };
    return of_device ? of_device->rerun(run) : run();
  }

  CheckpointedFunction function;
  Autocast autocast;
  RandomState of_cpu;
  std::optional<RandomState> of_device;
};

/// Parameters are inputs of the node, too, so that it is there even if no input asks for a gradient, and so that their
/// gradients travel as everybody's do.
struct CheckpointNode : torch::autograd::Function<CheckpointNode> {
  static at::Tensor forward(torch::autograd::AutogradContext* context, c10::intrusive_ptr<Rerun> const& rerun,
                            at::TensorList inputs, at::TensorList parameters) {
    NoCastCacheGuard const no_cache;
    auto kept = inputs.vec();
    context->saved_data["rerun"] = at::IValue::make_capsule(rerun);
    context->saved_data["inputs"] = static_cast<std::int64_t>(inputs.size());
    // With gradients, and then without what they need: attention picks another kernel where nobody wants a gradient, whose
    // roundings differ. The block's tensors are there for a moment, as they are in the backward pass.
    auto const output = [&] {
      auto detached = kept;
      for (auto& input : detached) { input = input.detach().requires_grad_(input.requires_grad()); }
      at::AutoGradMode const with_gradients(true);
      return rerun->function(detached).detach();
    }();
    kept.insert(kept.end(), parameters.begin(), parameters.end());
    context->save_for_backward(std::move(kept));
    return output;
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list const& gradients) {
    auto const rerun = c10::static_intrusive_pointer_cast<Rerun>(context->saved_data["rerun"].toCapsule());
    auto const input_count = static_cast<std::size_t>(context->saved_data["inputs"].toInt());
    auto tensors = context->get_saved_variables();
    for (std::size_t i = 0; i < input_count; ++i) {
      tensors[i] = tensors[i].detach().requires_grad_(tensors[i].requires_grad());
    }
    std::vector<at::Tensor> wanted;
    for (auto const& tensor : tensors) {
      if (tensor.requires_grad()) { wanted.push_back(tensor); }
    }

    at::Tensor output;
    {
      at::AutoGradMode const with_gradients(true);
      output = (*rerun)({tensors.begin(), tensors.begin() + static_cast<std::ptrdiff_t>(input_count)});
    }
    auto found = torch::autograd::grad({output}, wanted, {gradients[0]}, /*retain_graph=*/false, /*create_graph=*/false,
                                       /*allow_unused=*/true);
    torch::autograd::variable_list result(1);  // the first argument was no tensor
    std::size_t next = 0;
    for (auto const& tensor : tensors) {
      result.push_back(tensor.requires_grad() ? std::move(found[next++]) : at::Tensor());
    }
    return result;
  }
};

}  // namespace

at::Tensor checkpoint(CheckpointedFunction const& function, std::vector<at::Tensor> const& inputs,
                      std::vector<at::Tensor> const& parameters) {
  if (!at::GradMode::is_enabled() || inputs.empty()) { return function(inputs); }
  auto const rerun = c10::make_intrusive<Rerun>(function, inputs.front().device());
  return CheckpointNode::apply(rerun, at::TensorList(inputs), at::TensorList(parameters));
}

}  // namespace maxbatch
