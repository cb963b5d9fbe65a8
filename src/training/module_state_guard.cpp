#include "state_guard_run_all.hpp"
#include "state_guard_tensors.hpp"
#include <maxbatch/search/errors.hpp>
#include <maxbatch/training/state_guard.hpp>

#include <torch/nn/module.h>

#include <utility>

namespace maxbatch {
namespace {

using torch::nn::Module;

class ModuleStateGuard final : public StateGuard {
 public:
  /// `owner` may be empty: then the caller keeps the root alive.
  ModuleStateGuard(Module& root, std::shared_ptr<Module> owner) : root_(root), owner_(std::move(owner)) {
    add("model", root_, owner_);
    // Submodules are kept alive even if a step replaces one.
    for (auto const& item : root_.named_modules("model", /*include_self=*/false)) {
      add(item.key(), *item.value(), item.value());
    }
  }

  void restore_structure() override {
    detail::RunAll run;
    // A step that registers a parameter keeps it (see the header), but not the gradient.
    run([this] {
      for (auto const& parameter : root_.parameters()) {
        if (parameter.defined()) { detail::drop_gradient(parameter); }
      }
    });
    run([this] { tensors_.restore_structure(); });
    // From the root down, since `train` reaches the submodules too. A module that overrides it, to freeze a part or to
    // fold weights, takes back here what it did.
    for (auto const& mode : modes_) {
      if (mode.module->is_training() != mode.is_training) {
        run([&mode] { mode.module->train(mode.is_training); });
      }
    }
    run.finish();
  }

  void restore_values() override {
    detail::RunAll run;
    run([this] { restore_structure(); });
    run([this] { tensors_.restore_values(); });
    run.finish();
  }

  std::vector<NamedTensor> resident_tensors() const override { return tensors_.resident_tensors(); }

 private:
  struct Mode {
    Module* module;
    std::shared_ptr<Module> owner;
    bool is_training;
  };

  void add(std::string const& path, Module& module, std::shared_ptr<Module> owner) {
    modes_.push_back({&module, std::move(owner), module.is_training()});
    for (auto const& item : module.named_parameters(/*recurse=*/false)) {
      tensors_.add(path + "." + item.key(), item.value());
    }
    for (auto const& item : module.named_buffers(/*recurse=*/false)) {
      tensors_.add(path + "." + item.key(), item.value());
    }
  }

  Module& root_;
  std::shared_ptr<Module> owner_;
  std::vector<Mode> modes_;
  detail::TensorSnapshots tensors_;
};

}  // namespace

std::unique_ptr<StateGuard> make_state_guard(std::shared_ptr<torch::nn::Module> const& module) {
  if (!module) { throw InvalidArgument("maxbatch cannot preserve a module through a null pointer."); }
  return std::make_unique<ModuleStateGuard>(*module, module);
}

std::unique_ptr<StateGuard> make_state_guard(torch::nn::Module& module) {
  return std::make_unique<ModuleStateGuard>(module, nullptr);
}

}  // namespace maxbatch
