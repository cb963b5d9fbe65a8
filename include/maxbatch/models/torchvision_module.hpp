#pragma once

#include <torch/nn/module.h>

#include <string>

namespace maxbatch::models {

/// What follows each convolution.
enum class NormKind {
  batch,  ///< batch norm: its statistics are the batch's in training, and it is trained
  frozen  ///< the same arithmetic with statistics, scale and shift that never change: what detectors put there
};

/// What the models that equal torchvision's have in common: parameters and buffers by torchvision's names.
class TorchvisionModule : public torch::nn::Module {
 public:
  /// Copies what Python's `torch.save(model.state_dict(), file)` wrote for torchvision's model of these options, in place.
  /// Throws: InvalidArgument naming what is missing, unexpected or of another shape; nothing is changed then.
  void load_weights(std::string const& file);

  /// Types change for floating-point tensors only, as in Python: LibTorch's own would change counters and index tables too.
  void to(c10::Device device, c10::ScalarType dtype, bool non_blocking = false) override;
  void to(c10::ScalarType dtype, bool non_blocking = false) override;
  using torch::nn::Module::to;

 protected:
  explicit TorchvisionModule(NormKind norm) : norm_(norm) {}

 private:
  NormKind norm_;
};

}  // namespace maxbatch::models
