#include <maxbatch/search/errors.hpp>
#include <maxbatch/training/multi_tensor_optimizers.hpp>

#include <torch/torch.h>

#include <cmath>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace maxbatch {
namespace {

namespace optim = torch::optim;
using Tensors = std::vector<at::Tensor>;

/// Parameters that one kernel takes together, with what belongs to them.
struct Bucket {
  at::Device device = at::kCPU;
  at::ScalarType dtype = at::kFloat;
  std::int64_t step = 0;  // AdamW: of this update. SGD: 1 where momentum begins
  Tensors parameters;
  Tensors gradients;
  Tensors first;     // AdamW: exp_avg. SGD: momentum_buffer, empty without momentum
  Tensors second;    // exp_avg_sq
  Tensors greatest;  // max_exp_avg_sq, empty without amsgrad
};

Bucket& bucket_for(std::vector<Bucket>& buckets, at::Tensor const& parameter, std::int64_t step) {
  for (auto& bucket : buckets) {
    if (bucket.device == parameter.device() && bucket.dtype == parameter.scalar_type() && bucket.step == step) {
      return bucket;
    }
  }
  auto& bucket = buckets.emplace_back();
  bucket.device = parameter.device();
  bucket.dtype = parameter.scalar_type();
  bucket.step = step;
  return bucket;
}

/// The gradient, laid out as the parameter: these kernels walk through memory and look at no strides.
at::Tensor gradient_of(at::Tensor const& parameter) {
  auto const& gradient = parameter.grad();
  if (parameter.layout() != at::kStrided || gradient.layout() != at::kStrided || parameter.is_complex()) {
    throw InvalidArgument(
        "multi-tensor optimizers take dense, real parameters and gradients; use LibTorch's own optimizer for others");
  }
  if (gradient.sizes() != parameter.sizes() || gradient.scalar_type() != parameter.scalar_type()) {
    throw InvalidArgument("a parameter of shape " + c10::str(parameter.sizes()) + " and type " +
                          c10::toString(parameter.scalar_type()) + " has a gradient of shape " +
                          c10::str(gradient.sizes()) + " and type " + c10::toString(gradient.scalar_type()));
  }
  if (!parameter.is_non_overlapping_and_dense()) {
    throw InvalidArgument("multi-tensor optimizers take parameters without gaps in memory, and one of shape " +
                          c10::str(parameter.sizes()) + " has strides " + c10::str(parameter.strides()));
  }
  if (gradient.strides() == parameter.strides()) { return gradient; }
  return at::empty_like(parameter).copy_(gradient);
}

at::Tensor loss_of(optim::Optimizer::LossClosure const& closure) {
  if (!closure) { return {}; }
  at::AutoGradMode const with_gradients(true);
  return closure();
}

template <typename ParamState>
ParamState& state_of(optim::Optimizer& optimizer, at::Tensor const& parameter) {
  auto& state = optimizer.state()[parameter.unsafeGetTensorImpl()];
  if (!state) { state = std::make_unique<ParamState>(); }
  return static_cast<ParamState&>(*state);
}

// ---- AdamW ----

std::vector<Bucket> adamw_buckets(optim::AdamW& optimizer, optim::OptimizerParamGroup const& group,
                                  optim::AdamWOptions const& options) {
  std::vector<Bucket> buckets;
  for (auto const& parameter : group.params()) {
    if (!parameter.grad().defined()) { continue; }
    auto gradient = gradient_of(parameter);
    auto& state = state_of<optim::AdamWParamState>(optimizer, parameter);
    if (!state.exp_avg().defined()) { state.exp_avg(at::zeros_like(parameter, at::MemoryFormat::Preserve)); }
    if (!state.exp_avg_sq().defined()) { state.exp_avg_sq(at::zeros_like(parameter, at::MemoryFormat::Preserve)); }
    if (options.amsgrad() && !state.max_exp_avg_sq().defined()) {
      state.max_exp_avg_sq(at::zeros_like(parameter, at::MemoryFormat::Preserve));
    }
    state.step(state.step() + 1);
    auto& bucket = bucket_for(buckets, parameter, state.step());
    bucket.parameters.push_back(parameter);
    bucket.gradients.push_back(std::move(gradient));
    bucket.first.push_back(state.exp_avg());
    bucket.second.push_back(state.exp_avg_sq());
    if (options.amsgrad()) { bucket.greatest.push_back(state.max_exp_avg_sq()); }
  }
  return buckets;
}

void update_foreach(Bucket& bucket, optim::AdamWOptions const& options) {
  auto const [beta1, beta2] = options.betas();
  auto const step = static_cast<double>(bucket.step);
  auto const correction1 = 1 - std::pow(beta1, step);
  auto const correction2 = 1 - std::pow(beta2, step);
  if (options.weight_decay() != 0) { at::_foreach_mul_(bucket.parameters, 1 - options.lr() * options.weight_decay()); }
  at::_foreach_lerp_(bucket.first, bucket.gradients, 1 - beta1);
  at::_foreach_mul_(bucket.second, beta2);
  at::_foreach_addcmul_(bucket.second, bucket.gradients, bucket.gradients, 1 - beta2);
  if (options.amsgrad()) { at::_foreach_maximum_(bucket.greatest, bucket.second); }
  auto denominators = at::_foreach_sqrt(options.amsgrad() ? bucket.greatest : bucket.second);
  at::_foreach_div_(denominators, std::sqrt(correction2));
  at::_foreach_add_(denominators, options.eps());
  at::_foreach_addcdiv_(bucket.parameters, bucket.first, denominators, -options.lr() / correction1);
}

// ---- SGD ----

/// `zero_start`: momentum begins at zero, so that the first step need not be known as such.
std::vector<Bucket> sgd_buckets(optim::SGD& optimizer, optim::OptimizerParamGroup const& group,
                                optim::SGDOptions const& options, bool zero_start) {
  std::vector<Bucket> buckets;
  for (auto const& parameter : group.params()) {
    if (!parameter.grad().defined()) { continue; }
    auto gradient = gradient_of(parameter);
    if (options.momentum() == 0) {
      auto& bucket = bucket_for(buckets, parameter, 0);
      bucket.parameters.push_back(parameter);
      bucket.gradients.push_back(std::move(gradient));
      continue;
    }
    auto& state = state_of<optim::SGDParamState>(optimizer, parameter);
    auto const begins = !state.momentum_buffer().defined();
    if (begins) {
      state.momentum_buffer(zero_start ? at::zeros_like(parameter, at::MemoryFormat::Preserve)
                                       : at::empty_like(parameter, at::MemoryFormat::Preserve));
    }
    auto& bucket = bucket_for(buckets, parameter, begins && !zero_start ? 1 : 0);
    bucket.parameters.push_back(parameter);
    bucket.gradients.push_back(std::move(gradient));
    bucket.first.push_back(state.momentum_buffer());
  }
  return buckets;
}

void update_foreach(Bucket const& bucket, optim::SGDOptions const& options) {
  auto updates = bucket.gradients;
  if (options.weight_decay() != 0) {
    updates = at::_foreach_add(bucket.gradients, bucket.parameters, options.weight_decay());
  }
  if (options.momentum() != 0) {
    if (bucket.step == 1) {
      at::_foreach_copy_(bucket.first, updates);
    } else {
      at::_foreach_mul_(bucket.first, options.momentum());
      at::_foreach_add_(bucket.first, updates, 1 - options.dampening());
    }
    // Out of place where `updates` are the gradients themselves, which are the caller's.
    updates = options.nesterov() ? at::_foreach_add(updates, bucket.first, options.momentum()) : bucket.first;
  }
  at::_foreach_add_(bucket.parameters, updates, -options.lr());
}

}  // namespace

void TakesGradientScale::scale_next_step(at::Tensor scale, at::Tensor non_finite) {
  scaling_.scale = scale.defined() ? std::optional(std::move(scale)) : std::nullopt;
  scaling_.non_finite = non_finite.defined() ? std::optional(std::move(non_finite)) : std::nullopt;
}

TakesGradientScale::Scaling TakesGradientScale::take_scaling() { return std::exchange(scaling_, Scaling{}); }

torch::Tensor ForeachAdamW::step(LossClosure closure) {
  at::NoGradGuard const no_gradients;
  auto loss = loss_of(closure);
  for (auto& group : param_groups()) {
    auto const& options = static_cast<optim::AdamWOptions const&>(group.options());
    for (auto& bucket : adamw_buckets(*this, group, options)) { update_foreach(bucket, options); }
  }
  return loss;
}

torch::Tensor FusedAdamW::step(LossClosure closure) {
  at::NoGradGuard const no_gradients;
  auto loss = loss_of(closure);
  auto const scaling = take_scaling();

  // One count of skipped steps serves all parameters while all of them take part in every step.
  std::size_t with_gradients = 0;
  std::size_t known = 0;
  for (auto const& group : param_groups()) {
    for (auto const& parameter : group.params()) {
      if (!parameter.grad().defined()) { continue; }
      ++with_gradients;
      known += state().count(parameter.unsafeGetTensorImpl());
    }
  }
  if (skipped_.defined() && (known != with_gradients || known != state().size())) { settle(); }

  for (auto& group : param_groups()) {
    auto const& options = static_cast<optim::AdamWOptions const&>(group.options());
    auto const [beta1, beta2] = options.betas();
    for (auto& bucket : adamw_buckets(*this, group, options)) {
      auto count = at::full({}, static_cast<double>(bucket.step), at::device(bucket.device).dtype(at::kFloat));
      if (skipped_.defined()) { count.sub_(skipped_); }
      Tensors const counts(bucket.parameters.size(), count);
      at::_fused_adamw_(bucket.parameters, bucket.gradients, bucket.first, bucket.second, bucket.greatest, counts,
                        options.lr(), beta1, beta2, options.weight_decay(), options.eps(), options.amsgrad(),
                        /*maximize=*/false, scaling.scale, scaling.non_finite);
    }
  }
  if (scaling.non_finite && with_gradients > 0) {
    if (!skipped_.defined()) { skipped_ = at::zeros({}, scaling.non_finite->options().dtype(at::kFloat)); }
    skipped_.add_(scaling.non_finite->ne(0).reshape({}));
  }
  return loss;
}

void FusedAdamW::settle() const {
  if (!skipped_.defined()) { return; }
  auto const count = static_cast<std::int64_t>(skipped_.item<float>());
  for (auto const& [parameter, state] : state()) {
    auto& counted = static_cast<optim::AdamWParamState&>(*state);
    counted.step(counted.step() - count);
  }
  skipped_.reset();
}

void FusedAdamW::save(torch::serialize::OutputArchive& archive) const {
  settle();
  AdamW::save(archive);
}

void FusedAdamW::load(torch::serialize::InputArchive& archive) {
  skipped_.reset();
  AdamW::load(archive);
}

torch::Tensor ForeachSGD::step(LossClosure closure) {
  at::NoGradGuard const no_gradients;
  auto loss = loss_of(closure);
  for (auto& group : param_groups()) {
    auto const& options = static_cast<optim::SGDOptions const&>(group.options());
    for (auto const& bucket : sgd_buckets(*this, group, options, /*zero_start=*/false)) {
      update_foreach(bucket, options);
    }
  }
  return loss;
}

torch::Tensor FusedSGD::step(LossClosure closure) {
  at::NoGradGuard const no_gradients;
  auto loss = loss_of(closure);
  auto const scaling = take_scaling();
  for (auto& group : param_groups()) {
    auto const& options = static_cast<optim::SGDOptions const&>(group.options());
    // A first step that is skipped on the device would leave momentum unwritten, and the next would not be the first.
    auto const zero_start = options.dampening() == 0;
    if (!zero_start && scaling.non_finite && scaling.non_finite->item<float>() != 0) { continue; }
    for (auto& bucket : sgd_buckets(*this, group, options, zero_start)) {
      at::_fused_sgd_(bucket.parameters, bucket.gradients, bucket.first, options.weight_decay(), options.momentum(),
                      options.lr(), options.dampening(), options.nesterov(), /*maximize=*/false,
                      /*is_first_step=*/bucket.step == 1, scaling.scale, scaling.non_finite);
    }
  }
  return loss;
}

}  // namespace maxbatch
