#pragma once

#include <maxbatch/training/state_guard.hpp>

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <memory>
#include <optional>

namespace maxbatch {

struct GradientScalerOptions {
  double initial_scale = 65536;
  double growth_factor = 2;             ///< above 1
  double backoff_factor = 0.5;          ///< in (0, 1)
  std::int64_t growth_interval = 2000;  ///< steps in a row without a skipped one, before the scale grows
};

/// Multiplies losses, so that small gradients do not vanish in fp16, and divides gradients by the same before the update;
/// an update whose gradients are not all finite is skipped, and the scale backs off. What torch.amp.GradScaler of PyTorch
/// 2.11 is in Python, with its defaults:
///
///     scaler.scale(loss).backward();
///     scaler.step(*optimizer);
///     scaler.update();
///
/// The scale lives on the device of the first loss. An optimizer that takes a scale (FusedAdamW, FusedSGD) skips on the
/// device, and nothing waits; for any other, `step` waits for the device once, to know whether to call it.
/// Threads: one at a time.
class GradientScaler {
 public:
  /// Throws: InvalidArgument for options that could not work.
  explicit GradientScaler(GradientScalerOptions const& options = {});
  ~GradientScaler();
  GradientScaler(GradientScaler const&) = delete;
  GradientScaler& operator=(GradientScaler const&) = delete;

  /// loss * scale.  Synchronises: no.
  at::Tensor scale(at::Tensor const& loss);
  /// Divides the gradients of the optimizer's parameters by the scale, in place, for a caller who clips them before
  /// `step`. Once between two updates.  Synchronises: no.
  /// Throws: std::logic_error for a second time, or before any `scale`; InvalidArgument for gradients in fp16.
  void unscale(torch::optim::Optimizer& optimizer);
  /// Unscales, unless that is done, and updates the parameters, unless a gradient is not finite.
  /// Returns whether it updated; none: only the device knows.  Throws: as unscale.
  std::optional<bool> step(torch::optim::Optimizer& optimizer);
  /// After all steps of an iteration: backs off if one was skipped, else counts towards growth.  Synchronises: no.
  /// Throws: std::logic_error if no step or unscale went before.
  void update();

  /// The current scale.  Synchronises: yes.
  double current_scale() const;
  /// Iterations since the scale last changed.  Synchronises: yes.
  std::int64_t growth_tracker() const;
  /// Optimizer steps that were skipped for gradients that were not finite.  Synchronises: yes.
  std::int64_t skipped_steps() const;

  GradientScalerOptions const& options() const { return options_; }

 private:
  friend class GradientScalerGuard;
  struct OfOptimizer {
    at::Tensor non_finite;  ///< one float on the scale's device: 0, or some gradient is not finite
    bool unscaled = false;
    bool stepped = false;
  };
  void check_gradients_of(torch::optim::Optimizer& optimizer, at::Tensor const& factor, OfOptimizer& of) const;
  OfOptimizer& of(torch::optim::Optimizer& optimizer);

  GradientScalerOptions options_;
  at::Tensor scale_;           ///< one float; undefined before the first loss
  at::Tensor growth_tracker_;  ///< one int32
  at::Tensor skipped_;         ///< one float: whole numbers to 2^24
  std::map<torch::optim::Optimizer*, OfOptimizer> optimizers_;
};

/// Scale, growth and count of skipped steps; a scaler that had seen no loss has seen none again.
std::unique_ptr<StateGuard> make_state_guard(std::shared_ptr<GradientScaler> const& scaler);
std::unique_ptr<StateGuard> make_state_guard(GradientScaler& scaler);

}  // namespace maxbatch
