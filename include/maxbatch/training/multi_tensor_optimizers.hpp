#pragma once

#include <torch/optim/adamw.h>
#include <torch/optim/sgd.h>

#include <optional>

namespace maxbatch {

/// An optimizer whose kernels undo a loss scale, and leave everything as it is where a gradient is not finite, without the
/// host having to know. GradientScaler uses it; any other optimizer costs it one wait for the device a step.
class TakesGradientScale {
 public:
  virtual ~TakesGradientScale() = default;

  /// For the next step only: gradients are divided by `scale` (undefined: they are unscaled already), and nothing changes
  /// if `non_finite` is not 0. Both are one float on the parameters' device.  Synchronises: no.
  void scale_next_step(at::Tensor scale, at::Tensor non_finite);

 protected:
  struct Scaling {
    std::optional<at::Tensor> scale;
    std::optional<at::Tensor> non_finite;
  };
  /// What was said for this step; the next one has none.
  Scaling take_scaling();

 private:
  Scaling scaling_;
};

/// torch::optim::AdamW, with an operation over all parameters at once in place of one for each: a handful of launches a
/// step, and temporaries as large as the parameters. Options, state, groups and serialisation are AdamW's own, and so are
/// its results but for the order of roundings (Python's `foreach=True` computes the same).
/// Throws: InvalidArgument for parameters or gradients that are sparse or complex, or a gradient of another shape.
class ForeachAdamW : public torch::optim::AdamW {
 public:
  using AdamW::AdamW;
  torch::Tensor step(LossClosure closure = nullptr) override;
};

/// torch::optim::AdamW with one kernel for a whole step (at::_fused_adamw_, Python's `fused=True`): no temporaries. Unlike
/// Python's it keeps no step count per parameter on the device.
class FusedAdamW : public torch::optim::AdamW, public TakesGradientScale {
 public:
  using AdamW::AdamW;
  torch::Tensor step(LossClosure closure = nullptr) override;

  /// Under a loss scale only the device knows which steps were skipped, so the states' counters count attempts, until
  /// this is called; `save` calls it.  Synchronises: if a step was taken under a loss scale since the last time.
  void settle() const;
  void save(torch::serialize::OutputArchive& archive) const override;
  void load(torch::serialize::InputArchive& archive) override;

 private:
  mutable at::Tensor skipped_;  ///< steps that were skipped and are counted all the same; undefined: none can have been
};

/// torch::optim::SGD, over all parameters at once; see ForeachAdamW.
class ForeachSGD : public torch::optim::SGD {
 public:
  using SGD::SGD;
  torch::Tensor step(LossClosure closure = nullptr) override;
};

/// torch::optim::SGD with one kernel for a whole step (at::_fused_sgd_); see FusedAdamW.
/// Synchronises: under a loss scale, if there is dampening, which only the first step has not.
class FusedSGD : public torch::optim::SGD, public TakesGradientScale {
 public:
  using SGD::SGD;
  torch::Tensor step(LossClosure closure = nullptr) override;
};

}  // namespace maxbatch
