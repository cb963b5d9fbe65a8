#include "classification_step.hpp"
#include "recipe_check.hpp"
#include "timm_layers.hpp"
#include <maxbatch/models/state_dict.hpp>
#include <maxbatch/models/vision_transformer.hpp>
#include <maxbatch/search/errors.hpp>
#include <maxbatch/training/checkpoint.hpp>

#include <torch/torch.h>

#include <algorithm>
#include <cmath>
#include <utility>

namespace maxbatch::models {
namespace {

constexpr std::int64_t kImageChannels = 3;
constexpr double kEpsilon = 1e-6;

std::string text_of(ImageSize size) { return std::to_string(size.height) + "x" + std::to_string(size.width); }

void check(VisionTransformerOptions const& options) {
  auto const refuse = [](std::string const& what) { throw InvalidArgument("no Vision Transformer has " + what); };
  for (auto const& [name, value] : {std::pair("patch_size", options.patch_size), std::pair("classes", options.classes),
                                    std::pair("width", options.width), std::pair("depth", options.depth),
                                    std::pair("heads", options.heads), std::pair("mlp_ratio", options.mlp_ratio)}) {
    if (value < 1) { refuse(std::string(name) + " " + std::to_string(value)); }
  }
  if (options.width % options.heads != 0) {
    refuse(std::to_string(options.heads) + " heads over a width of " + std::to_string(options.width) +
           ": heads divide the width");
  }
  if (std::min(options.image_size.height, options.image_size.width) < options.patch_size) {
    refuse("images of " + text_of(options.image_size) + " pixels, smaller than its patches of " +
           std::to_string(options.patch_size));
  }
}

std::int64_t patch_count(VisionTransformerOptions const& options) {
  return (options.image_size.height / options.patch_size) * (options.image_size.width / options.patch_size);
}

// Note [As long as timm]: the same requests in the same order, and frees in the same order too, find the same free blocks. A
// tensor that is gone a line earlier leaves other holes: no byte less at the peak, but in bf16 1 to 4 % more reserved.

struct PatchEmbed : torch::nn::Module {
  PatchEmbed(std::int64_t side_, std::int64_t width, c10::Device device) : side(side_) {
    proj = register_module("proj", std::make_shared<torch::nn::Module>());
    auto const bound = 1 / std::sqrt(static_cast<double>(kImageChannels * side * side));  // as torch.nn.Conv2d starts
    weight = proj->register_parameter("weight",
                                      at::empty({width, kImageChannels, side, side}, device).uniform_(-bound, bound));
    bias = proj->register_parameter("bias", at::empty({width}, device).uniform_(-bound, bound));
  }

  /// [N, 3, H, W] to [N, patches, width]
  at::Tensor forward(at::Tensor const& images) const {
    return at::conv2d(images, weight, bias, side).flatten(2).transpose(1, 2);
  }

  std::int64_t side;
  std::shared_ptr<torch::nn::Module> proj;
  at::Tensor weight;
  at::Tensor bias;
};

struct SelfAttention : torch::nn::Module {
  SelfAttention(std::int64_t width, std::int64_t heads_, Attention kind_, c10::Device device)
      : heads(heads_), kind(kind_) {
    qkv = register_module("qkv", std::make_shared<TimmLinear>(width, 3 * width, true, device));
    proj = register_module("proj", std::make_shared<TimmLinear>(width, width, true, device));
  }

  /// [N, tokens, width] to the same
  at::Tensor forward(at::Tensor const& x) const {
    auto const depth = x.size(2) / heads;
    auto const split = qkv->forward(x).view({x.size(0), x.size(1), 3, heads, depth}).permute({2, 0, 3, 1, 4}).unbind(0);
    if (kind == Attention::fused) {
      return joined(at::scaled_dot_product_attention(split[0], split[1], split[2]), x.sizes());
    }
    // Alive until heads are joined, as in timm. See Note [As long as timm].
    auto const queries = split[0] * (1 / std::sqrt(static_cast<double>(depth)));
    auto const weights = at::softmax(at::matmul(queries, split[1].transpose(-2, -1)), -1);
    return joined(at::matmul(weights, split[2]), x.sizes());
  }

  /// [N, heads, tokens, depth] to [N, tokens, width], projected
  at::Tensor joined(at::Tensor attended, at::IntArrayRef shape) const {
    attended = attended.transpose(1, 2).reshape(shape);
    return proj->forward(attended);
  }

  std::int64_t heads;
  Attention kind;
  std::shared_ptr<TimmLinear> qkv;
  std::shared_ptr<TimmLinear> proj;
};

struct Mlp : torch::nn::Module {
  Mlp(std::int64_t width, std::int64_t hidden, c10::Device device) {
    fc1 = register_module("fc1", std::make_shared<TimmLinear>(width, hidden, true, device));
    fc2 = register_module("fc2", std::make_shared<TimmLinear>(hidden, width, true, device));
  }
  at::Tensor forward(at::Tensor const& x) const { return fc2->forward(at::gelu(fc1->forward(x))); }

  std::shared_ptr<TimmLinear> fc1;
  std::shared_ptr<TimmLinear> fc2;
};

struct Block : torch::nn::Module {
  Block(VisionTransformerOptions const& options, c10::Device device) {
    auto const width = options.width;
    norm1 = register_module("norm1", std::make_shared<TimmNorm>(width, device, kEpsilon));
    attn = register_module("attn", std::make_shared<SelfAttention>(width, options.heads, options.attention, device));
    norm2 = register_module("norm2", std::make_shared<TimmNorm>(width, device, kEpsilon));
    mlp = register_module("mlp", std::make_shared<Mlp>(width, options.mlp_ratio * width, device));
  }

  // Each branch is a call of its own: what a norm made is gone before the sum is there.
  at::Tensor forward(at::Tensor x) const {
    x = x + attended(x);
    return x + perceived(x);
  }
  at::Tensor attended(at::Tensor const& x) const { return attn->forward(norm1->forward(x)); }
  at::Tensor perceived(at::Tensor const& x) const { return mlp->forward(norm2->forward(x)); }

  std::shared_ptr<TimmNorm> norm1;
  std::shared_ptr<SelfAttention> attn;
  std::shared_ptr<TimmNorm> norm2;
  std::shared_ptr<Mlp> mlp;
};

PreparedStep make_vision_transformer(std::string const& name, VisionTransformerOptions options, c10::Device device,
                                     Recipe const& recipe) {
  RecipeAbilities abilities;
  abilities.smallest_side = options.patch_size;
  abilities.checkpoint = true;
  check_recipe(name, recipe, device, abilities);
  options.image_size = recipe.image_size.value_or(options.image_size);
  options.checkpoint = recipe.checkpoint;
  auto const network = std::make_shared<VisionTransformer>(options, device);
  Classifier classifier;
  classifier.module = network;
  classifier.forward = [network](at::Tensor const& images) { return network->forward(images); };
  classifier.draw_inputs = [options](Trial const& trial) {
    auto const size = trial.image_size().value_or(options.image_size);
    return torch::randn({trial.batch_size(), kImageChannels, size.height, size.width}, trial.device());
  };
  classifier.classes = options.classes;
  return prepare_classification_step(std::move(classifier), recipe);
}

}  // namespace

struct VisionTransformer::Parts {
  at::Tensor cls_token;
  at::Tensor pos_embed;
  std::shared_ptr<PatchEmbed> patch_embed;
  std::vector<std::shared_ptr<Block>> blocks;
  std::shared_ptr<TimmNorm> norm;
  std::shared_ptr<TimmLinear> head;

  /// [N, 3, H, W] to [N, 1 + patches, width]
  at::Tensor embed(at::Tensor const& images) const {
    auto const patches = patch_embed->forward(images);  // see Note [As long as timm]
    auto x = at::cat({cls_token.expand({patches.size(0), -1, -1}), patches}, 1);
    x = x + pos_embed;
    return x;
  }
};

VisionTransformer::VisionTransformer(VisionTransformerOptions const& options, c10::Device device)
    : options_(options), parts_(std::make_shared<Parts>()) {
  check(options_);
  auto& parts = *parts_;
  parts.patch_embed =
      register_module("patch_embed", std::make_shared<PatchEmbed>(options_.patch_size, options_.width, device));
  auto const blocks = register_module("blocks", std::make_shared<torch::nn::Module>());
  for (std::int64_t i = 0; i < options_.depth; ++i) {
    parts.blocks.push_back(blocks->register_module(std::to_string(i), std::make_shared<Block>(options_, device)));
  }
  parts.norm = register_module("norm", std::make_shared<TimmNorm>(options_.width, device, kEpsilon));
  parts.head = register_module("head", std::make_shared<TimmLinear>(options_.width, options_.classes, true, device));
  parts.cls_token = register_parameter("cls_token", at::empty({1, 1, options_.width}, device).normal_(0, 1e-6));
  parts.pos_embed = register_parameter(
      "pos_embed", at::empty({1, 1 + patch_count(options_), options_.width}, device).normal_(0, 0.02));
}

at::Tensor VisionTransformer::forward(at::Tensor const& images) {
  auto const& parts = *parts_;
  auto const wanted = options_.image_size;
  if (images.dim() != 4 || images.size(1) != kImageChannels || images.size(2) != wanted.height ||
      images.size(3) != wanted.width) {
    throw InvalidArgument("this Vision Transformer takes images [N, 3, " + std::to_string(wanted.height) + ", " +
                          std::to_string(wanted.width) +
                          "], the size that its positions were made for, and was given " + c10::str(images.sizes()));
  }
  // Statements of their own, so that nothing is alive longer than the next one needs it.
  auto x = parts.embed(images);
  for (auto const& block : parts.blocks) {
    if (options_.checkpoint) {
      x = checkpoint([block](std::vector<at::Tensor> const& inputs) { return block->forward(inputs[0]); },
                     {std::move(x)}, block->parameters());
    } else {
      x = block->forward(std::move(x));
    }
  }
  return parts.head->forward(parts.norm->forward(x).select(1, 0));
}

void VisionTransformer::load_weights(std::string const& file) { load_state_dict(*this, file); }

std::int64_t parameter_count(VisionTransformerOptions const& options) {
  check(options);
  auto const width = options.width;
  auto const hidden = options.mlp_ratio * width;
  auto const block = 4 * width + (4 * width * width + 4 * width) + (2 * width * hidden + hidden + width);
  auto const embedding = kImageChannels * options.patch_size * options.patch_size * width + width;
  return embedding + (2 + patch_count(options)) * width + options.depth * block + 2 * width +
         (width + 1) * options.classes;
}

ModelFactory vision_transformer_factory(std::string name, std::string description,
                                        VisionTransformerOptions const& options) {
  ModelFactory factory;
  factory.name = std::move(name);
  factory.description = std::move(description);
  factory.image_size = options.image_size;
  factory.parameters = parameter_count(options);
  factory.make = [name = factory.name, options](c10::Device device, Recipe const& recipe) {
    return make_vision_transformer(name, options, device, recipe);
  };
  return factory;
}

std::vector<ModelFactory> vision_transformer_factories() {
  VisionTransformerOptions const written_out;
  auto fused = written_out;
  fused.attention = Attention::fused;
  return {vision_transformer_factory("vit_b_16", "ViT-B/16, 1000 classes", written_out),
          vision_transformer_factory("vit_b_16_fused", "ViT-B/16, 1000 classes, fused attention", fused)};
}

}  // namespace maxbatch::models
