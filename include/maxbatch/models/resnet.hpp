#pragma once

#include <maxbatch/models/torchvision_module.hpp>
#include <maxbatch/training/model_factory.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace maxbatch::models {

/// A residual network of bottleneck blocks; the defaults are those of ResNet-50.
struct ResNetOptions {
  std::vector<std::int64_t> depths = {3, 4, 6, 3};  ///< blocks of each of the four stages
  std::int64_t width = 64;                          ///< channels of the stem; a stage gives 4, 8, 16, 32 times as many
  std::int64_t classes = 1000;                      ///< 0: no classifier at the end
  NormKind norm = NormKind::batch;
  double norm_epsilon = 1e-5;  ///< 0 for the detectors' weights that torchvision offers as COCO_V1
  /// Blocks keep their inputs only, and run again in the backward pass, where batch norms update their running statistics a
  /// second time, as they do in Python.
  bool checkpoint = false;
};

/// The image classifier of arXiv:1512.03385, equal to torchvision 0.26's `resnet50` (strides in the 3x3 convolutions) for
/// the same weights: parameters and buffers have torchvision's names, so a state dict saved from Python loads by
/// `load_weights`. Weights start as torchvision's do.  Synchronises: no.
class ResNet : public TorchvisionModule {
 public:
  /// Builds the weights on `device`.  Throws: InvalidArgument for options that make no model.
  explicit ResNet(ResNetOptions const& options, c10::Device device = c10::Device(c10::kCPU));

  /// Images [N, 3, H, W] to logits [N, classes].  Throws: InvalidArgument for other shapes, and where `classes` is 0.
  at::Tensor forward(at::Tensor const& images);

  /// What the four stages give, finest first: [N, 4 * width, H / 4, W / 4] (rounded up) to [N, 32 * width, H / 32, W / 32].
  std::vector<at::Tensor> feature_maps(at::Tensor const& images);

  /// The parts of the above, for those who run them one by one: stem (convolution, norm, ReLU, pooling), stages 0 to 3,
  /// pooling and classifier. In training each call of a part with batch norm updates its running statistics;
  /// `num_batches_tracked` is counted by `forward` and `feature_maps` alone.
  at::Tensor run_stem(at::Tensor const& images) const;
  at::Tensor run_stage(std::size_t stage, at::Tensor x) const;
  at::Tensor run_head(at::Tensor const& x) const;

  /// Trains only the last `parts` of stem and stages: 0 (nothing) to 5 (all), as torchvision counts trainable layers; the
  /// stem's norm is trained only with all of them. The classifier stays trained.  Throws: InvalidArgument for others.
  void train_last(std::int64_t parts);

  ResNetOptions const& options() const { return options_; }

 private:
  struct Parts;

  void check(at::Tensor const& images) const;
  void count_batch() const;

  ResNetOptions options_;
  std::shared_ptr<Parts> parts_;
};

/// Number of parameters of a model with these options.  Throws: InvalidArgument for options that make no model.
std::int64_t parameter_count(ResNetOptions const& options);

/// A factory that trains such a model with cross-entropy on random images drawn inside the step.
ModelFactory resnet_factory(std::string name, std::string description, ResNetOptions const& options);

/// resnet50 for 224x224 images.
ModelFactory resnet50();

}  // namespace maxbatch::models
