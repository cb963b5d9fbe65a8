#include "support/state_hash.hpp"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/autocast_mode.h>
#include <torch/torch.h>

#include <cstring>
#include <deque>
#include <functional>
#include <mutex>
#include <optional>
#include <ostream>
#include <stdexcept>
#include <tuple>
#include <type_traits>

namespace maxbatch::test {

/// FNV-1a over everything that is fed to one part.
class StateHash::Part {
 public:
  explicit Part(std::uint64_t& value) : value_(value) {}

  void bytes(void const* data, std::size_t size) {
    auto const* const bytes = static_cast<unsigned char const*>(data);
    for (std::size_t i = 0; i < size; ++i) { value_ = (value_ ^ bytes[i]) * 1099511628211ULL; }
  }

  void feed(std::string const& text) {
    feed(text.size());
    bytes(text.data(), text.size());
  }
  template <typename Plain,
            std::enable_if_t<std::is_arithmetic_v<Plain> || std::is_pointer_v<Plain> || std::is_enum_v<Plain>, int> = 0>
  void feed(Plain plain) {
    bytes(&plain, sizeof(plain));
  }
  void feed(std::tuple<double, double> const& pair) {
    feed(std::get<0>(pair));
    feed(std::get<1>(pair));
  }
  template <typename Value>
  void feed(std::optional<Value> const& value) {
    feed(value.has_value());
    if (value) { feed(*value); }
  }
  void feed(at::IntArrayRef numbers) {
    feed(numbers.size());
    for (auto const number : numbers) { feed(number); }
  }

 private:
  std::uint64_t& value_;
};

StateHash::Part StateHash::part(std::string const& name) {
  auto const [position, is_new] = parts_.emplace(name, 14695981039346656037ULL);
  if (!is_new) { throw std::logic_error("two parts of a state hash are named " + name); }
  return Part(position->second);
}

void StateHash::add_values(std::string const& name, at::Tensor const& tensor) {
  auto geometry = part(name + " geometry");
  geometry.feed(tensor.sizes());
  geometry.feed(tensor.strides());
  geometry.feed(tensor.storage_offset());
  geometry.feed(tensor.scalar_type());
  geometry.feed(tensor.device().str());
  // The whole storage, so that the gaps between strided elements count too.
  auto const all = at::empty({0}, tensor.options().dtype(at::kByte).requires_grad(false))
                       .set_(tensor.storage(), 0, {static_cast<std::int64_t>(tensor.storage().nbytes())})
                       .cpu();
  part(name + " bytes").bytes(all.const_data_ptr(), all.nbytes());
}

StateHash& StateHash::add(std::string const& name, at::Tensor const& tensor) {
  at::NoGradGuard const no_grad;
  part(name).feed(tensor.unsafeGetTensorImpl());
  if (!tensor.defined()) { return *this; }
  part(name + " storage").feed(tensor.storage().unsafeGetStorageImpl());
  part(name + " address").feed(tensor.const_data_ptr());
  part(name + " requires_grad").feed(tensor.requires_grad());
  part(name + " history").feed(tensor.is_leaf());
  add_values(name, tensor);
  auto const& gradient = tensor.unsafeGetTensorImpl()->grad();
  part(name + ".grad exists").feed(gradient.defined());
  if (gradient.defined()) { add_values(name + ".grad", gradient); }
  return *this;
}

StateHash& StateHash::add(torch::nn::Module const& module) {
  std::function<void(std::string const&, torch::nn::Module const&)> const add_one =
      [this](std::string const& path, torch::nn::Module const& one) {
        part(path + " training").feed(one.is_training());
        for (auto const& item : one.named_parameters(/*recurse=*/false)) { add(path + "." + item.key(), item.value()); }
        for (auto const& item : one.named_buffers(/*recurse=*/false)) { add(path + "." + item.key(), item.value()); }
      };
  module.apply(add_one, "model");
  return *this;
}

namespace {

// Every option and every field of a state, by name. Tensors, lists of them, and plain values may be visited.

template <typename Visit>
void fields_of(torch::optim::SGDOptions& o, Visit const& visit) {
  visit("lr", o.lr());
  visit("momentum", o.momentum());
  visit("dampening", o.dampening());
  visit("weight_decay", o.weight_decay());
  visit("nesterov", o.nesterov());
}
template <typename Visit>
void fields_of(torch::optim::SGDParamState& s, Visit const& visit) {
  visit("momentum_buffer", s.momentum_buffer());
}

template <typename AdamLikeOptions, typename Visit>
auto fields_of(AdamLikeOptions& o, Visit const& visit) -> decltype(void(o.betas())) {
  visit("lr", o.lr());
  visit("betas", o.betas());
  visit("eps", o.eps());
  visit("weight_decay", o.weight_decay());
  visit("amsgrad", o.amsgrad());
}
template <typename AdamLikeParamState, typename Visit>
auto fields_of(AdamLikeParamState& s, Visit const& visit) -> decltype(void(s.max_exp_avg_sq())) {
  visit("step", s.step());
  visit("exp_avg", s.exp_avg());
  visit("exp_avg_sq", s.exp_avg_sq());
  visit("max_exp_avg_sq", s.max_exp_avg_sq());
}

template <typename Visit>
void fields_of(torch::optim::RMSpropOptions& o, Visit const& visit) {
  visit("lr", o.lr());
  visit("alpha", o.alpha());
  visit("eps", o.eps());
  visit("weight_decay", o.weight_decay());
  visit("momentum", o.momentum());
  visit("centered", o.centered());
}
template <typename Visit>
void fields_of(torch::optim::RMSpropParamState& s, Visit const& visit) {
  visit("step", s.step());
  visit("square_avg", s.square_avg());
  visit("momentum_buffer", s.momentum_buffer());
  visit("grad_avg", s.grad_avg());
}

template <typename Visit>
void fields_of(torch::optim::AdagradOptions& o, Visit const& visit) {
  visit("lr", o.lr());
  visit("lr_decay", o.lr_decay());
  visit("weight_decay", o.weight_decay());
  visit("initial_accumulator_value", o.initial_accumulator_value());
  visit("eps", o.eps());
}
template <typename Visit>
void fields_of(torch::optim::AdagradParamState& s, Visit const& visit) {
  visit("step", s.step());
  visit("sum", s.sum());
}

template <typename Visit>
void fields_of(torch::optim::LBFGSOptions& o, Visit const& visit) {
  visit("lr", o.lr());
  visit("max_iter", o.max_iter());
  visit("max_eval", o.max_eval());
  visit("tolerance_grad", o.tolerance_grad());
  visit("tolerance_change", o.tolerance_change());
  visit("history_size", o.history_size());
  visit("line_search_fn", o.line_search_fn());
}
template <typename Visit>
void fields_of(torch::optim::LBFGSParamState& s, Visit const& visit) {
  visit("func_evals", s.func_evals());
  visit("n_iter", s.n_iter());
  visit("t", s.t());
  visit("prev_loss", s.prev_loss());
  visit("d", s.d());
  visit("H_diag", s.H_diag());
  visit("prev_flat_grad", s.prev_flat_grad());
  visit("old_dirs", s.old_dirs());
  visit("old_stps", s.old_stps());
  visit("ro", s.ro());
  visit("has al", s.al().has_value());
  if (s.al()) { visit("al", *s.al()); }
}

/// Calls `use` with pointers that name the types of `optimizer`'s options and states.
template <typename Use>
void with_types_of(torch::optim::Optimizer& optimizer, Use const& use) {
  using namespace torch::optim;
  auto const is = [&optimizer](auto const* kind) {
    return dynamic_cast<std::remove_pointer_t<decltype(kind)>*>(&optimizer) != nullptr;
  };
  if (is(static_cast<SGD*>(nullptr))) {
    use(static_cast<SGDOptions*>(nullptr), static_cast<SGDParamState*>(nullptr));
  } else if (is(static_cast<Adam*>(nullptr))) {
    use(static_cast<AdamOptions*>(nullptr), static_cast<AdamParamState*>(nullptr));
  } else if (is(static_cast<AdamW*>(nullptr))) {
    use(static_cast<AdamWOptions*>(nullptr), static_cast<AdamWParamState*>(nullptr));
  } else if (is(static_cast<RMSprop*>(nullptr))) {
    use(static_cast<RMSpropOptions*>(nullptr), static_cast<RMSpropParamState*>(nullptr));
  } else if (is(static_cast<Adagrad*>(nullptr))) {
    use(static_cast<AdagradOptions*>(nullptr), static_cast<AdagradParamState*>(nullptr));
  } else if (is(static_cast<LBFGS*>(nullptr))) {
    use(static_cast<LBFGSOptions*>(nullptr), static_cast<LBFGSParamState*>(nullptr));
  } else {
    throw std::invalid_argument("no state hash for this kind of optimizer");
  }
}

}  // namespace

StateHash& StateHash::add(torch::optim::Optimizer& optimizer) {
  auto const visitor = [this](std::string const& prefix) {
    return [this, prefix](std::string const& name, auto const& field) {
      using Field = std::decay_t<decltype(field)>;
      if constexpr (std::is_same_v<Field, at::Tensor>) {
        add(prefix + name, field);
      } else if constexpr (std::is_same_v<Field, std::deque<at::Tensor>> ||
                           std::is_same_v<Field, std::vector<at::Tensor>>) {
        part(prefix + name + " size").feed(field.size());
        for (std::size_t i = 0; i < field.size(); ++i) { add(prefix + name + "[" + std::to_string(i) + "]", field[i]); }
      } else {
        part(prefix + name).feed(field);
      }
    };
  };
  with_types_of(optimizer, [&](auto const* options_type, auto const* state_type) {
    using Options = std::remove_cv_t<std::remove_pointer_t<decltype(options_type)>>;
    using State = std::remove_cv_t<std::remove_pointer_t<decltype(state_type)>>;
    fields_of(static_cast<Options&>(optimizer.defaults()), visitor("optimizer.defaults."));
    part("optimizer.param_groups size").feed(optimizer.param_groups().size());
    part("optimizer.state size").feed(optimizer.state().size());
    for (std::size_t g = 0; g < optimizer.param_groups().size(); ++g) {
      auto& group = optimizer.param_groups()[g];
      auto const prefix = "optimizer.param_groups[" + std::to_string(g) + "].";
      part(prefix + "options").feed(&group.options());
      fields_of(static_cast<Options&>(group.options()), visitor(prefix));
      auto members = part(prefix + "params");
      for (std::size_t p = 0; p < group.params().size(); ++p) {
        auto* const key = group.params()[p].unsafeGetTensorImpl();
        members.feed(key);
        auto const state = optimizer.state().find(key);
        if (state == optimizer.state().end()) { continue; }
        auto const state_prefix = prefix + "params[" + std::to_string(p) + "].";
        part(state_prefix + "state").feed(state->second.get());
        if (state->second) { fields_of(static_cast<State&>(*state->second), visitor(state_prefix)); }
      }
    }
  });
  return *this;
}

StateHash& StateHash::add(std::string const& name, at::Generator const& generator) {
  auto copy = generator;
  std::lock_guard<std::mutex> const lock(copy.mutex());
  auto const state = copy.get_state();
  part(name).bytes(state.const_data_ptr(), state.nbytes());
  return *this;
}

StateHash& StateHash::add_process() {
  auto& context = at::globalContext();
  add("default CPU generator", at::detail::getDefaultCPUGenerator());
  part("grad mode").feed(at::GradMode::is_enabled());
  part("inference mode").feed(c10::InferenceMode::is_enabled());
  for (auto const device : {at::kCPU, at::kCUDA}) {
    auto const name = "autocast " + c10::DeviceTypeName(device, /*lower_case=*/true);
    part(name).feed(at::autocast::is_autocast_enabled(device));
    part(name + " dtype").feed(at::autocast::get_autocast_dtype(device));
  }
  part("autocast cache").feed(at::autocast::is_autocast_cache_enabled());
  at::autocast::increment_nesting();
  part("autocast nesting").feed(at::autocast::decrement_nesting());

  part("anomaly mode").feed(torch::autograd::AnomalyMode::is_enabled());
  part("anomaly mode checks for nan").feed(torch::autograd::AnomalyMode::should_check_nan());
  part("default dtype").feed(c10::get_default_dtype_as_scalartype());
  part("cuDNN enabled").feed(context.userEnabledCuDNN());
  part("cuDNN benchmark").feed(context.benchmarkCuDNN());
  part("cuDNN benchmark limit").feed(context.benchmarkLimitCuDNN());
  part("cuDNN deterministic").feed(context.deterministicCuDNN());
  part("oneDNN enabled").feed(context.userEnabledMkldnn());
  part("oneDNN deterministic").feed(context.deterministicMkldnn());
  part("NNPACK enabled").feed(context.userEnabledNNPACK());
  part("deterministic algorithms").feed(context.deterministicAlgorithms());
  part("deterministic algorithms only warn").feed(context.deterministicAlgorithmsWarnOnly());
  part("deterministic fill").feed(context.deterministicFillUninitializedMemory());
  part("attention flash").feed(context.userEnabledFlashSDP());
  part("attention memory efficient").feed(context.userEnabledMemEfficientSDP());
  part("attention math").feed(context.userEnabledMathSDP());
  part("attention cuDNN").feed(context.userEnabledCuDNNSDP());
  auto order = part("attention order");
  for (auto const backend : context.sDPPriorityOrder()) { order.feed(backend); }
  part("linear algebra backend").feed(context.linalgPreferredBackend());
  part("BLAS backend").feed(context.blasPreferredBackend());
  part("cuBLAS fp16 reduction").feed(context.allowFP16ReductionCuBLAS());
  part("cuBLAS bf16 reduction").feed(context.allowBF16ReductionCuBLAS());
  part("cuBLAS fp16 accumulation").feed(context.allowFP16AccumulationCuBLAS());

  using at::Float32Backend;
  using at::Float32Op;
  part("fp32 precision").feed(context.float32Precision(Float32Backend::GENERIC, Float32Op::ALL));
  for (auto const backend : {Float32Backend::CUDA, Float32Backend::MKLDNN}) {
    for (auto const op : {Float32Op::ALL, Float32Op::CONV, Float32Op::RNN, Float32Op::MATMUL}) {
      part("fp32 precision " + std::to_string(static_cast<int>(backend)) + "," + std::to_string(static_cast<int>(op)))
          .feed(context.float32Precision(backend, op));
    }
  }
  // The older switches throw where they disagree with the newer ones.
  auto const older = [this](std::string const& name, auto const& read) {
    auto answer = part(name);
    try {
      answer.feed(static_cast<int>(read()));
    } catch (c10::Error const&) { answer.feed(-1); }
  };
  older("TF32 in cuDNN", [&context] { return context.allowTF32CuDNN(); });
  older("TF32 in cuBLAS", [&context] { return context.allowTF32CuBLAS(); });
  older("matmul precision", [&context] { return context.float32MatmulPrecision(); });
  return *this;
}

std::vector<std::string> StateHash::differences(StateHash const& other) const {
  std::vector<std::string> names;
  for (auto const& [name, value] : parts_) {
    auto const found = other.parts_.find(name);
    if (found == other.parts_.end() || found->second != value) { names.push_back(name); }
  }
  for (auto const& [name, value] : other.parts_) {
    if (parts_.count(name) == 0) { names.push_back(name); }
  }
  return names;
}

std::uint64_t StateHash::value() const {
  std::uint64_t value = 14695981039346656037ULL;
  Part whole(value);
  for (auto const& [name, part_value] : parts_) {
    whole.feed(name);
    whole.feed(part_value);
  }
  return value;
}

std::ostream& operator<<(std::ostream& out, StateHash const& hash) {
  return out << hash.parts_.size() << " parts, " << hash.value();
}

}  // namespace maxbatch::test
