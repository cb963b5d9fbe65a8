#include "state_guard_run_all.hpp"
#include "state_guard_tensors.hpp"
#include <maxbatch/search/errors.hpp>
#include <maxbatch/training/gradient_scaler.hpp>
#include <maxbatch/training/multi_tensor_optimizers.hpp>

#include <torch/torch.h>

#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace maxbatch {
namespace {

void require(bool fine, std::string const& name, double value, char const* what) {
  if (!fine) { throw InvalidArgument(name + " is " + std::to_string(value) + "; it must be " + what); }
}

}  // namespace

GradientScaler::GradientScaler(GradientScalerOptions const& options) : options_(options) {
  require(options.initial_scale > 0, "initial_scale", options.initial_scale, "above 0");
  require(options.growth_factor > 1, "growth_factor", options.growth_factor, "above 1");
  require(options.backoff_factor > 0 && options.backoff_factor < 1, "backoff_factor", options.backoff_factor,
          "between 0 and 1");
  require(options.growth_interval >= 1, "growth_interval", static_cast<double>(options.growth_interval),
          "1 or more steps");
}

GradientScaler::~GradientScaler() = default;

at::Tensor GradientScaler::scale(at::Tensor const& loss) {
  if (!scale_.defined()) {
    auto const options = at::device(loss.device()).dtype(at::kFloat);
    scale_ = at::full({}, options_.initial_scale, options);
    growth_tracker_ = at::zeros({}, options.dtype(at::kInt));
    skipped_ = at::zeros({}, options);
  }
  return loss * scale_;
}

GradientScaler::OfOptimizer& GradientScaler::of(torch::optim::Optimizer& optimizer) {
  if (!scale_.defined()) {
    throw std::logic_error("the gradient scaler has scaled no loss yet: call `scale(loss).backward()` first");
  }
  auto& of_it = optimizers_[&optimizer];
  if (of_it.stepped) {
    throw std::logic_error("the gradient scaler has stepped this optimizer already: call `update()` in between");
  }
  return of_it;
}

/// Multiplies gradients by `factor` and notes whether all are finite: one kernel for each type.
void GradientScaler::check_gradients_of(torch::optim::Optimizer& optimizer, at::Tensor const& factor,
                                        OfOptimizer& of) const {
  at::NoGradGuard const no_gradients;
  std::map<at::ScalarType, std::vector<at::Tensor>> by_type;
  for (auto const& group : optimizer.param_groups()) {
    for (auto const& parameter : group.params()) {
      auto gradient = parameter.grad();
      if (!gradient.defined()) { continue; }
      if (gradient.scalar_type() == at::kHalf) {
        throw InvalidArgument(
            "a gradient scaler cannot unscale gradients in fp16, which overflow: keep parameters in fp32 and let "
            "autocast choose fp16");
      }
      if (gradient.device() != scale_.device()) {
        throw InvalidArgument("the gradient scaler's losses were on " + scale_.device().str() +
                              ", and a gradient is on " + gradient.device().str() + ": use a scaler for each device");
      }
      if (gradient.is_sparse()) { gradient = gradient._coalesced_(false).coalesce()._values(); }
      by_type[gradient.scalar_type()].push_back(gradient);
    }
  }
  of.non_finite = at::zeros({}, scale_.options());
  for (auto& [type, gradients] : by_type) {
    at::_amp_foreach_non_finite_check_and_unscale_(gradients, of.non_finite, factor);
  }
}

void GradientScaler::unscale(torch::optim::Optimizer& optimizer) {
  auto& of_it = of(optimizer);
  if (of_it.unscaled) {
    throw std::logic_error(
        "the gradient scaler has unscaled this optimizer's gradients already: call `update()` first");
  }
  // In double: the reciprocal of a large scale is no power of two for every growth factor.
  check_gradients_of(optimizer, scale_.to(at::kDouble).reciprocal().to(at::kFloat), of_it);
  of_it.unscaled = true;
}

std::optional<bool> GradientScaler::step(torch::optim::Optimizer& optimizer) {
  auto& of_it = of(optimizer);
  if (auto* const takes_scale = dynamic_cast<TakesGradientScale*>(&optimizer)) {
    if (of_it.unscaled) {
      takes_scale->scale_next_step({}, of_it.non_finite);
    } else {
      check_gradients_of(optimizer, at::ones({}, scale_.options()), of_it);
      takes_scale->scale_next_step(scale_, of_it.non_finite);
    }
    optimizer.step();
    of_it.stepped = true;
    return std::nullopt;
  }
  if (!of_it.unscaled) { unscale(optimizer); }
  auto const finite = of_it.non_finite.item<float>() == 0;
  if (finite) { optimizer.step(); }
  of_it.stepped = true;
  return finite;
}

void GradientScaler::update() {
  if (optimizers_.empty()) {
    throw std::logic_error("the gradient scaler has nothing to update from: call `step(optimizer)` first");
  }
  at::NoGradGuard const no_gradients;
  at::Tensor any;
  for (auto const& [optimizer, of_it] : optimizers_) {
    if (!of_it.non_finite.defined()) { continue; }  // its unscale failed
    skipped_.add_(of_it.non_finite);
    any = any.defined() ? any + of_it.non_finite : of_it.non_finite;
  }
  if (any.defined()) {
    at::_amp_update_scale_(scale_, growth_tracker_, any, options_.growth_factor, options_.backoff_factor,
                           options_.growth_interval);
  }
  optimizers_.clear();
}

double GradientScaler::current_scale() const {
  return scale_.defined() ? scale_.item<float>() : options_.initial_scale;
}

std::int64_t GradientScaler::growth_tracker() const {
  return growth_tracker_.defined() ? growth_tracker_.item<std::int32_t>() : 0;
}

std::int64_t GradientScaler::skipped_steps() const {
  return skipped_.defined() ? static_cast<std::int64_t>(skipped_.item<float>()) : 0;
}

class GradientScalerGuard final : public StateGuard {
 public:
  /// `owner` may be empty: then the caller keeps the scaler alive.
  GradientScalerGuard(GradientScaler& scaler, std::shared_ptr<GradientScaler> owner)
      : scaler_(scaler),
        owner_(std::move(owner)),
        scale_(scaler.scale_),
        growth_tracker_(scaler.growth_tracker_),
        skipped_(scaler.skipped_) {
    tensors_.add("gradient scaler.scale", scale_);
    tensors_.add("gradient scaler.growth_tracker", growth_tracker_);
    tensors_.add("gradient scaler.skipped", skipped_);
  }

  void restore_structure() override {
    scaler_.optimizers_.clear();
    scaler_.scale_ = scale_;
    scaler_.growth_tracker_ = growth_tracker_;
    scaler_.skipped_ = skipped_;
    tensors_.restore_structure();
  }
  void restore_values() override {
    restore_structure();
    tensors_.restore_values();
  }
  std::vector<NamedTensor> resident_tensors() const override { return tensors_.resident_tensors(); }

 private:
  GradientScaler& scaler_;
  std::shared_ptr<GradientScaler> owner_;
  at::Tensor scale_;
  at::Tensor growth_tracker_;
  at::Tensor skipped_;
  detail::TensorSnapshots tensors_;
};

std::unique_ptr<StateGuard> make_state_guard(std::shared_ptr<GradientScaler> const& scaler) {
  if (!scaler) { throw InvalidArgument("maxbatch cannot preserve a gradient scaler through a null pointer."); }
  return std::make_unique<GradientScalerGuard>(*scaler, scaler);
}

std::unique_ptr<StateGuard> make_state_guard(GradientScaler& scaler) {
  return std::make_unique<GradientScalerGuard>(scaler, nullptr);
}

}  // namespace maxbatch
