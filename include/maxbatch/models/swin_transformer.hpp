#pragma once

#include <maxbatch/models/attention.hpp>
#include <maxbatch/training/model_factory.hpp>

#include <torch/nn/module.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace maxbatch::models {

/// A Swin Transformer; the defaults are those of Swin-T. Lists have an entry per stage.
struct SwinOptions {
  ImageSize image_size{224, 224};
  std::int64_t patch_size = 4;
  std::int64_t classes = 1000;
  std::int64_t width = 96;  ///< channels of the first stage; each later stage has twice as many
  std::vector<std::int64_t> depths = {2, 2, 6, 2};
  std::vector<std::int64_t> heads = {3, 6, 12, 24};
  std::int64_t window = 7;      ///< side of a window in tokens; a stage with fewer tokens a side has one smaller window
  std::int64_t mlp_ratio = 4;   ///< width of the perceptron in a block, in widths of the block
  double drop_path_rate = 0.1;  ///< of the last block, in [0, 1); the rates of the others grow from 0 to it
  Attention attention = Attention::written_out;
  bool checkpoint = false;  ///< blocks keep their inputs only, and run again in the backward pass
};

SwinOptions swin_tiny_options();
SwinOptions swin_small_options();
SwinOptions swin_base_options();
SwinOptions swin_large_options();
/// The same model for 384x384 images with windows of 12x12 tokens.
SwinOptions for_384(SwinOptions options);

/// The image classifier of arXiv:2103.14030, equal to the one in timm 1.0.31 for the same weights: parameters have timm's
/// names, so a state dict saved from Python loads by `load_weights`. Weights start as timm's do.
///
/// `forward` takes images [N, 3, H, W] of any size of at least one patch and gives logits [N, classes]. Images of
/// `options.image_size` use masks made once; other sizes make theirs on the device at each call, and give what a model
/// built for that size would give as long as no stage is smaller than its window.
/// Synchronises: no.  Threads: those of LibTorch; one forward pass at a time where drop path draws.
class SwinTransformer : public torch::nn::Module {
 public:
  /// Builds the weights on `device`.  Throws: InvalidArgument for options that make no model.
  explicit SwinTransformer(SwinOptions const& options, c10::Device device = c10::Device(c10::kCPU));

  at::Tensor forward(at::Tensor const& images);

  /// Copies what Python's `torch.save(model.state_dict(), file)` wrote for timm's model of these options, in place.
  /// Throws: InvalidArgument naming what is missing, unexpected or of another shape; nothing is changed then.
  void load_weights(std::string const& file);

  SwinOptions const& options() const { return options_; }

  /// Types change for floating-point tensors only, as in Python; LibTorch's own would change index tables too.
  void to(c10::Device device, c10::ScalarType dtype, bool non_blocking = false) override;
  void to(c10::ScalarType dtype, bool non_blocking = false) override;
  using torch::nn::Module::to;

 private:
  struct Parts;

  SwinOptions options_;
  std::shared_ptr<Parts> parts_;
};

/// Number of parameters of a model with these options.  Throws: InvalidArgument for options that make no model.
std::int64_t parameter_count(SwinOptions const& options);

/// A factory that trains such a model with cross-entropy on random images drawn inside the step.
ModelFactory swin_factory(std::string name, std::string description, SwinOptions const& options);

/// swin_t, swin_s, swin_b, swin_l for 224x224 images, swin_b_384, swin_l_384; and each with fused attention: swin_t_fused, …
std::vector<ModelFactory> swin_factories();

}  // namespace maxbatch::models
