#include "state_guard_run_all.hpp"
#include "state_guard_tensors.hpp"
#include <maxbatch/search/errors.hpp>
#include <maxbatch/training/multi_tensor_optimizers.hpp>
#include <maxbatch/training/state_guard.hpp>

#include <c10/util/Type.h>
#include <torch/optim/adagrad.h>
#include <torch/optim/adam.h>
#include <torch/optim/adamw.h>
#include <torch/optim/lbfgs.h>
#include <torch/optim/rmsprop.h>
#include <torch/optim/sgd.h>

#include <deque>
#include <optional>
#include <typeinfo>
#include <utility>

namespace maxbatch {
namespace {

namespace optim = torch::optim;

// What this file knows about each kind: which fields of a parameter's state hold tensors. Everything else (counters,
// options) is copied as a value of its own type.

template <typename Visit>
void visit_tensors(optim::SGDParamState const& state, Visit const& visit) {
  visit("momentum_buffer", state.momentum_buffer());
}

template <typename Visit>
void visit_tensors(optim::AdagradParamState const& state, Visit const& visit) {
  visit("sum", state.sum());
}

template <typename Visit>
void visit_tensors(optim::RMSpropParamState const& state, Visit const& visit) {
  visit("square_avg", state.square_avg());
  visit("momentum_buffer", state.momentum_buffer());
  visit("grad_avg", state.grad_avg());
}

template <typename AdamLikeParamState, typename Visit>
auto visit_tensors(AdamLikeParamState const& state, Visit const& visit) -> decltype(void(state.max_exp_avg_sq())) {
  visit("exp_avg", state.exp_avg());
  visit("exp_avg_sq", state.exp_avg_sq());
  visit("max_exp_avg_sq", state.max_exp_avg_sq());
}

template <typename Visit>
void visit_tensors(optim::LBFGSParamState const& state, Visit const& visit) {
  auto const visit_each = [&visit](std::string const& name, auto const& tensors) {
    for (std::size_t i = 0; i < tensors.size(); ++i) { visit(name + "[" + std::to_string(i) + "]", tensors[i]); }
  };
  visit("d", state.d());
  visit("H_diag", state.H_diag());
  visit("prev_flat_grad", state.prev_flat_grad());
  visit_each("old_dirs", state.old_dirs());
  visit_each("old_stps", state.old_stps());
  visit_each("ro", state.ro());
  if (state.al()) { visit_each("al", *state.al()); }
}

/// `Base` as the type that its optimizer works with. LibTorch itself casts without looking.
template <typename Derived, typename Base>
Derived& typed(Base& object) {
  if (auto* const derived = dynamic_cast<Derived*>(&object)) { return *derived; }
  throw InvalidArgument("maxbatch cannot preserve the optimizer: it holds " + c10::demangle(typeid(object).name()) +
                        " where " + c10::demangle(typeid(Derived).name()) + " belongs.");
}

/// Counters of FusedAdamW are right only once they are settled.
void settle(optim::Optimizer const& optimizer) {
  if (auto const* const fused = dynamic_cast<FusedAdamW const*>(&optimizer)) { fused->settle(); }
}

template <typename Options, typename ParamState>
class OptimizerStateGuard final : public StateGuard {
 public:
  /// `owner` may be empty: then the caller keeps the optimizer alive.
  OptimizerStateGuard(optim::Optimizer& optimizer, std::shared_ptr<optim::Optimizer> owner)
      : optimizer_(optimizer), owner_(std::move(owner)), defaults_(typed<Options>(optimizer.defaults())) {
    settle(optimizer_);
    for (auto& group : optimizer_.param_groups()) {
      groups_.push_back({group.params(), typed<Options>(group.options())});
    }
    for (auto const& [key, state] : optimizer_.state()) {
      if (!state) {
        states_.emplace_back(key, std::nullopt);
        continue;
      }
      auto const& saved = states_.emplace_back(key, typed<ParamState>(*state)).second;
      visit_tensors(*saved,
                    [this, prefix = "optimizer." + name_of(key) + "."](
                        std::string const& name, at::Tensor const& tensor) { tensors_.add(prefix + name, tensor); });
    }
  }

  void restore_structure() override {
    detail::RunAll run;
    run([this] { settle(optimizer_); });
    run([this] { erase_new_states(); });
    for (auto const& [key, saved] : states_) {
      run([this, key = key, &saved = saved] { restore_state(key, saved); });
    }
    run([this] { restore_groups(); });
    run([this] { tensors_.restore_structure(); });
    run.finish();
  }

  void restore_values() override {
    detail::RunAll run;
    run([this] { restore_structure(); });
    run([this] { tensors_.restore_values(); });
    run.finish();
  }

  std::vector<NamedTensor> resident_tensors() const override { return tensors_.resident_tensors(); }

  std::vector<NamedTensor> tensors_kept_by_others() const override {
    std::vector<NamedTensor> parameters;
    for (auto const& group : groups_) {
      for (auto const& parameter : group.params) {
        parameters.push_back({"optimizer." + name_of(parameter.unsafeGetTensorImpl()), parameter});
      }
    }
    return parameters;
  }

 private:
  struct Group {
    std::vector<at::Tensor> params;
    Options options;
  };

  /// A state's key is the address of its parameter.
  std::string name_of(void const* key) const {
    for (std::size_t g = 0; g < groups_.size(); ++g) {
      for (std::size_t p = 0; p < groups_[g].params.size(); ++p) {
        if (groups_[g].params[p].unsafeGetTensorImpl() == key) {
          return "param_groups[" + std::to_string(g) + "].params[" + std::to_string(p) + "]";
        }
      }
    }
    return "state";
  }

  /// The state of parameters that had none. It may be half made: LBFGS enters its state before it fills it.
  void erase_new_states() {
    std::vector<void*> made;
    for (auto const& [key, state] : optimizer_.state()) {
      bool known = false;
      for (auto const& saved : states_) { known = known || saved.first == key; }
      if (!known) { made.push_back(key); }
    }
    for (auto* const key : made) { optimizer_.state().erase(key); }
  }

  /// Into the same object where it is still there, since references to it may be held. Copying a state copies handles:
  /// the tensors of the beginning come back, and those that a step put in their place are freed.
  void restore_state(void* key, std::optional<ParamState> const& saved) {
    auto& live = optimizer_.state()[key];
    if (!saved) {
      live.reset();
    } else if (auto* const same = dynamic_cast<ParamState*>(live.get())) {
      *same = *saved;
    } else {
      live = std::make_unique<ParamState>(*saved);
    }
  }

  void restore_groups() {
    typed<Options>(optimizer_.defaults()) = defaults_;
    auto& live = optimizer_.param_groups();
    while (live.size() > groups_.size()) { live.pop_back(); }
    for (std::size_t i = 0; i < groups_.size(); ++i) {
      auto const& saved = groups_[i];
      if (i == live.size()) {
        live.emplace_back(saved.params, std::make_unique<Options>(saved.options));
        continue;
      }
      if (!same_tensors(live[i].params(), saved.params)) { live[i].params() = saved.params; }
      // In place: a learning-rate schedule may hold a reference to the options.
      if (auto* const same = live[i].has_options() ? dynamic_cast<Options*>(&live[i].options()) : nullptr) {
        *same = saved.options;
      } else {
        live[i].set_options(std::make_unique<Options>(saved.options));
      }
    }
  }

  static bool same_tensors(std::vector<at::Tensor> const& a, std::vector<at::Tensor> const& b) {
    if (a.size() != b.size()) { return false; }
    for (std::size_t i = 0; i < a.size(); ++i) {
      if (!a[i].is_same(b[i])) { return false; }
    }
    return true;
  }

  optim::Optimizer& optimizer_;
  std::shared_ptr<optim::Optimizer> owner_;
  Options defaults_;
  std::vector<Group> groups_;
  std::vector<std::pair<void*, std::optional<ParamState>>> states_;
  detail::TensorSnapshots tensors_;
};

/// The exact type: a derived optimizer may keep state of its own, which would be lost.
template <typename Kind, typename Options, typename ParamState>
std::unique_ptr<StateGuard> guard_if(optim::Optimizer& optimizer, std::shared_ptr<optim::Optimizer> const& owner) {
  if (typeid(optimizer) != typeid(Kind)) { return nullptr; }
  return std::make_unique<OptimizerStateGuard<Options, ParamState>>(optimizer, owner);
}

std::unique_ptr<StateGuard> make_guard(optim::Optimizer& optimizer, std::shared_ptr<optim::Optimizer> const& owner) {
  using namespace torch::optim;
  for (auto* const make :
       {&guard_if<SGD, SGDOptions, SGDParamState>, &guard_if<ForeachSGD, SGDOptions, SGDParamState>,
        &guard_if<FusedSGD, SGDOptions, SGDParamState>, &guard_if<Adam, AdamOptions, AdamParamState>,
        &guard_if<AdamW, AdamWOptions, AdamWParamState>, &guard_if<ForeachAdamW, AdamWOptions, AdamWParamState>,
        &guard_if<FusedAdamW, AdamWOptions, AdamWParamState>, &guard_if<RMSprop, RMSpropOptions, RMSpropParamState>,
        &guard_if<Adagrad, AdagradOptions, AdagradParamState>, &guard_if<LBFGS, LBFGSOptions, LBFGSParamState>}) {
    if (auto guard = make(optimizer, owner)) { return guard; }
  }
  auto const type = c10::demangle(typeid(optimizer).name());
  throw InvalidArgument(
      "maxbatch cannot preserve an optimizer of type " + type +
      ": it knows SGD, Adam, AdamW, RMSprop, Adagrad and LBFGS themselves, not what derives from them. "
      "Write make_state_guard(std::shared_ptr<" +
      type + "> const&) in the namespace of that type, returning a maxbatch::StateGuard.");
}

}  // namespace

std::unique_ptr<StateGuard> make_state_guard(std::shared_ptr<torch::optim::Optimizer> const& optimizer) {
  if (!optimizer) { throw InvalidArgument("maxbatch cannot preserve an optimizer through a null pointer."); }
  return make_guard(*optimizer, optimizer);
}

std::unique_ptr<StateGuard> make_state_guard(torch::optim::Optimizer& optimizer) {
  return make_guard(optimizer, nullptr);
}

}  // namespace maxbatch
