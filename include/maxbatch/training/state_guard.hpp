#pragma once

#include <maxbatch/bytes.hpp>

#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>

#include <memory>
#include <string>
#include <vector>

namespace torch {
namespace nn {
class Module;
template <typename Contained>
class ModuleHolder;
}  // namespace nn
namespace optim {
class Optimizer;
}
}  // namespace torch

namespace maxbatch {

/// Remembers a piece of the user's state when made, in host memory, and puts it back in place: the same storages.
/// Made when a search begins, not when `preserve` is called.
class StateGuard {
 public:
  virtual ~StateGuard() = default;

  /// Between trials: no gradients, no lazily made state, modes and options as they were. Values may differ.
  /// Does not allocate on the device, so that it can run right after an out-of-memory failure.
  virtual void restore_structure() = 0;
  /// Everything, bit for bit. Called after `restore_structure`.
  virtual void restore_values() = 0;

  /// Tensors of this state that live on a device during a trial, each with a name for messages ("model.fc.weight").
  struct NamedTensor {
    std::string name;
    at::Tensor tensor;
  };
  virtual std::vector<NamedTensor> resident_tensors() const = 0;
};

/// Parameters, buffers, gradients (and whether they existed), requires_grad and the training flag of each submodule.
/// Gradients that someone else holds too come back in the same tensor; others come back as a new one.
std::unique_ptr<StateGuard> make_state_guard(std::shared_ptr<torch::nn::Module> const& module);
std::unique_ptr<StateGuard> make_state_guard(torch::nn::Module& module);
/// SGD, Adam, AdamW, RMSprop, Adagrad, LBFGS: state tensors and counters, and parameter-group options. State that did not
/// exist is erased again.  Throws: InvalidArgument for an optimizer of another kind: write a `make_state_guard` for it.
std::unique_ptr<StateGuard> make_state_guard(std::shared_ptr<torch::optim::Optimizer> const& optimizer);
std::unique_ptr<StateGuard> make_state_guard(torch::optim::Optimizer& optimizer);
/// Values, requires_grad and gradient of one tensor.
std::unique_ptr<StateGuard> make_state_guard(at::Tensor const& tensor);
std::unique_ptr<StateGuard> make_state_guard(at::Generator const& generator);
template <typename Contained>
std::unique_ptr<StateGuard> make_state_guard(torch::nn::ModuleHolder<Contained> const& holder) {
  return make_state_guard(std::shared_ptr<torch::nn::Module>(holder.ptr()));
}

/// The process-wide switches a step may flip: grad mode, autocast, TF32 and cuDNN flags, deterministic algorithms, default
/// dtype, and the default random generators of the CPU and of the CUDA devices already in use (none is woken).
std::unique_ptr<StateGuard> make_global_state_guard();

/// Bytes of the storages under `tensors` on `device`, each storage once, each rounded up as a device rounds (512).
Bytes resident_bytes(std::vector<StateGuard::NamedTensor> const& tensors, c10::Device device);

}  // namespace maxbatch
