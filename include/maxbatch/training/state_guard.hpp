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

/// Remembers a piece of the user's state when made, in host memory, and puts it back in place: the same storages, so that
/// the user's own aliases see it. Made when a search begins, not when `preserve` is called. Making one changes nothing;
/// dropping one restores nothing. Both ways of restoring may be called repeatedly and in any order; a part that throws
/// does not keep the others from being restored.
///
/// What does not come back: the version counters of tensors count on, so that a graph that saved one of them, before or
/// during a trial, refuses to run backward instead of using other values; forward-mode gradients; and a history that an
/// in-place operation gave to a tensor that is a view.
/// Threads: make and restore on the thread that searches, with the device idle.
class StateGuard {
 public:
  virtual ~StateGuard() = default;

  /// Between trials: no gradients, no lazily made state, modes and options as they were. Values may differ.
  /// Does not allocate on the device, so that it can run right after an out-of-memory failure.
  virtual void restore_structure() = 0;
  /// Everything, bit for bit, structure included. Allocates gradients that `restore_structure` dropped, after all else.
  virtual void restore_values() = 0;

  /// Tensors of this state that live on a device during a trial, each with a name for messages ("model.fc.weight").
  struct NamedTensor {
    std::string name;
    at::Tensor tensor;
  };
  virtual std::vector<NamedTensor> resident_tensors() const = 0;
  /// Tensors that the kept object changes but that another guard has to keep: an optimizer's parameters.
  virtual std::vector<NamedTensor> tensors_kept_by_others() const { return {}; }
};

/// Parameters, buffers, gradients (and whether they existed), requires_grad and the training flag of each submodule.
/// Gradients that someone else can see too (another reference, a view of the same storage, memory of the user's own) stay
/// in memory during trials and come back in the same tensor; others leave, and come back as a new one.
/// A parameter, buffer or submodule that a step registers stays registered, since the module holds it in a member too:
/// let lazy modules build themselves before the search. A member that a step assigns anew is out of reach.
/// Throws: InvalidArgument, naming the tensor, for one that is sparse, nested, or on the meta device; a sparse gradient is
/// fine unless someone else holds it.
std::unique_ptr<StateGuard> make_state_guard(std::shared_ptr<torch::nn::Module> const& module);
std::unique_ptr<StateGuard> make_state_guard(torch::nn::Module& module);
/// SGD, Adam, AdamW, RMSprop, Adagrad, LBFGS: state tensors and counters, and parameter groups with their options, all in
/// the same objects. State that did not exist is erased again. Not the parameters themselves: preserve their module.
/// State tensors that a step replaces (LBFGS does) stay in memory until the guard is gone. What a learning-rate schedule
/// sets comes back; its own step counter is protected and does not.
/// Throws: InvalidArgument for an optimizer of another kind: write a `make_state_guard` for it.
std::unique_ptr<StateGuard> make_state_guard(std::shared_ptr<torch::optim::Optimizer> const& optimizer);
std::unique_ptr<StateGuard> make_state_guard(torch::optim::Optimizer& optimizer);
/// Values, requires_grad and gradient of one tensor.  Throws: as for modules, and for an undefined tensor.
std::unique_ptr<StateGuard> make_state_guard(at::Tensor const& tensor);
std::unique_ptr<StateGuard> make_state_guard(at::Generator const& generator);
template <typename Contained>
std::unique_ptr<StateGuard> make_state_guard(torch::nn::ModuleHolder<Contained> const& holder) {
  return make_state_guard(std::shared_ptr<torch::nn::Module>(holder.ptr()));
}

/// The switches that a step may flip: grad and inference mode, autocast, deterministic algorithms, TF32 and all other
/// precision switches, cuDNN, oneDNN and attention flags, default dtype, anomaly mode; and the default random generators
/// of the CPU and of every CUDA device (their states lie on the host: no device is woken). Autocast's cache of cast
/// weights is emptied. Of the thread-local ones, those of the thread that makes the guard. While guards of several threads
/// are alive, as in searches of two devices at the same time, what the process has once is put back when one of them is
/// alone again, as it was before the first.
std::unique_ptr<StateGuard> make_global_state_guard();

/// Bytes of the storages under `tensors` on `device`, each storage once, each rounded up as a device rounds (512).
Bytes resident_bytes(std::vector<StateGuard::NamedTensor> const& tensors, c10::Device device);

}  // namespace maxbatch
