#pragma once

#include <maxbatch/models/attention.hpp>
#include <maxbatch/training/model_factory.hpp>

#include <torch/nn/module.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace maxbatch::models {

/// A Vision Transformer; the defaults are those of ViT-B/16.
struct VisionTransformerOptions {
  ImageSize image_size{224, 224};  ///< the only size that it takes: each patch has a learned position
  std::int64_t patch_size = 16;
  std::int64_t classes = 1000;
  std::int64_t width = 768;
  std::int64_t depth = 12;
  std::int64_t heads = 12;
  std::int64_t mlp_ratio = 4;  ///< width of the perceptron in a block, in widths of the block
  Attention attention = Attention::written_out;
  bool checkpoint = false;  ///< blocks keep their inputs only, and run again in the backward pass
};

/// The image classifier of arXiv:2010.11929, equal to timm 1.0.31's `vit_base_patch16_224` (with these options) for the
/// same weights: parameters have timm's names, so a state dict saved from Python loads by `load_weights`. Weights start as
/// timm's do. No dropout and no drop path, as there.
///
/// `forward` takes images [N, 3, H, W] of `options.image_size` and gives logits [N, classes].
/// Synchronises: no.
class VisionTransformer : public torch::nn::Module {
 public:
  /// Builds the weights on `device`.  Throws: InvalidArgument for options that make no model.
  explicit VisionTransformer(VisionTransformerOptions const& options, c10::Device device = c10::Device(c10::kCPU));

  at::Tensor forward(at::Tensor const& images);

  /// Copies what Python's `torch.save(model.state_dict(), file)` wrote for timm's model of these options, in place.
  /// Throws: InvalidArgument naming what is missing, unexpected or of another shape; nothing is changed then.
  void load_weights(std::string const& file);

  VisionTransformerOptions const& options() const { return options_; }

 private:
  struct Parts;

  VisionTransformerOptions options_;
  std::shared_ptr<Parts> parts_;
};

/// Number of parameters of a model with these options.  Throws: InvalidArgument for options that make no model.
std::int64_t parameter_count(VisionTransformerOptions const& options);

/// A factory that trains such a model with cross-entropy on random images drawn inside the step.
ModelFactory vision_transformer_factory(std::string name, std::string description,
                                        VisionTransformerOptions const& options);

/// vit_b_16 and vit_b_16_fused.
std::vector<ModelFactory> vision_transformer_factories();

}  // namespace maxbatch::models
