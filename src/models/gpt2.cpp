#include "recipe_check.hpp"
#include "timm_layers.hpp"
#include "training_step.hpp"
#include <maxbatch/models/gpt2.hpp>
#include <maxbatch/models/state_dict.hpp>
#include <maxbatch/search/errors.hpp>
#include <maxbatch/training/checkpoint.hpp>

#include <ATen/autocast_mode.h>
#include <torch/torch.h>

#include <cmath>
#include <limits>
#include <utility>

namespace maxbatch::models {
namespace {

constexpr double kStart = 0.02;  ///< standard deviation of weights

void check(Gpt2Options const& options) {
  auto const refuse = [](std::string const& what) { throw InvalidArgument("no GPT-2 has " + what); };
  for (auto const& [name, value] :
       {std::pair("vocabulary", options.vocabulary), std::pair("positions", options.positions),
        std::pair("width", options.width), std::pair("layers", options.layers), std::pair("heads", options.heads)}) {
    if (value < 1) { refuse(std::string(name) + " " + std::to_string(value)); }
  }
  if (options.width % options.heads != 0) {
    refuse(std::to_string(options.heads) + " heads over a width of " + std::to_string(options.width) +
           ": heads divide the width");
  }
  if (!(options.dropout >= 0 && options.dropout < 1)) {
    refuse("dropout " + std::to_string(options.dropout) + ": rates are in [0, 1)");
  }
}

/// A linear layer whose weight lies the other way round, as transformers' Conv1D.
struct Projection : torch::nn::Module {
  Projection(std::int64_t in, std::int64_t out, double deviation, c10::Device device) {
    weight = register_parameter("weight", at::empty({in, out}, device).normal_(0, deviation));
    bias = register_parameter("bias", at::zeros({out}, device));
  }
  at::Tensor forward(at::Tensor const& x) const {
    return at::addmm(bias, x.view({-1, x.size(2)}), weight).view({x.size(0), x.size(1), weight.size(1)});
  }

  at::Tensor weight;  ///< [in, out]
  at::Tensor bias;
};

struct Embedding : torch::nn::Module {
  Embedding(std::int64_t rows, std::int64_t width, c10::Device device) {
    weight = register_parameter("weight", at::empty({rows, width}, device).normal_(0, kStart));
  }

  at::Tensor weight;  ///< [rows, width]
};

struct CausalAttention : torch::nn::Module {
  CausalAttention(Gpt2Options const& options, double out_deviation, c10::Device device)
      : heads(options.heads), dropout(options.dropout), kind(options.attention) {
    c_attn = register_module("c_attn", std::make_shared<Projection>(options.width, 3 * options.width, kStart, device));
    c_proj =
        register_module("c_proj", std::make_shared<Projection>(options.width, options.width, out_deviation, device));
  }

  /// x: [N, tokens, width].  future: [tokens, tokens], minus infinity where a token must not look; of written-out
  /// attention.
  at::Tensor forward(at::Tensor const& x, at::Tensor const& future) const {
    auto const depth = x.size(2) / heads;
    auto const split = c_attn->forward(x).view({x.size(0), x.size(1), 3, heads, depth}).permute({2, 0, 3, 1, 4});
    auto const attended =
        kind == Attention::fused ? fused(split) : written_out(split, future.unsqueeze(0), x.size(0) * heads, depth);
    auto const out = c_proj->forward(attended.transpose(1, 2).reshape(x.sizes()));
    return at::dropout(out, dropout, is_training());
  }

  at::Tensor fused(at::Tensor const& split) const {
    return at::scaled_dot_product_attention(split[0], split[1], split[2], {}, is_training() ? dropout : 0.0,
                                            /*is_causal=*/true);
  }

  /// One copy gives each head its matrices; scale and mask are part of the product.
  at::Tensor written_out(at::Tensor const& split, at::Tensor const& future, std::int64_t matrices,
                         std::int64_t depth) const {
    auto const tokens = split.size(3);
    auto const parts = split.contiguous().view({3, matrices, tokens, depth}).unbind(0);
    auto const scores =
        at::baddbmm(future.expand({matrices, tokens, tokens}), parts[0], parts[1].transpose(1, 2), /*beta=*/1,
                    /*alpha=*/1 / std::sqrt(static_cast<double>(depth)));
    auto const weights = at::softmax(scores, -1).to(parts[2].scalar_type());
    return at::bmm(at::dropout(weights, dropout, is_training()), parts[2]).view({split.size(1), heads, tokens, depth});
  }

  std::int64_t heads;
  double dropout;
  Attention kind;
  std::shared_ptr<Projection> c_attn;
  std::shared_ptr<Projection> c_proj;
};

struct Gpt2Mlp : torch::nn::Module {
  Gpt2Mlp(Gpt2Options const& options, double out_deviation, c10::Device device) : dropout(options.dropout) {
    auto const hidden = 4 * options.width;
    c_fc = register_module("c_fc", std::make_shared<Projection>(options.width, hidden, kStart, device));
    c_proj = register_module("c_proj", std::make_shared<Projection>(hidden, options.width, out_deviation, device));
  }
  at::Tensor forward(at::Tensor const& x) const {
    return at::dropout(c_proj->forward(at::gelu(c_fc->forward(x), "tanh")), dropout, is_training());
  }

  double dropout;
  std::shared_ptr<Projection> c_fc;
  std::shared_ptr<Projection> c_proj;
};

struct Gpt2Block : torch::nn::Module {
  Gpt2Block(Gpt2Options const& options, c10::Device device) {
    // Two branches a block are added up: the more there are, the smaller each starts.
    auto const out_deviation = kStart / std::sqrt(2.0 * static_cast<double>(options.layers));
    ln_1 = register_module("ln_1", std::make_shared<TimmNorm>(options.width, device));
    attn = register_module("attn", std::make_shared<CausalAttention>(options, out_deviation, device));
    ln_2 = register_module("ln_2", std::make_shared<TimmNorm>(options.width, device));
    mlp = register_module("mlp", std::make_shared<Gpt2Mlp>(options, out_deviation, device));
  }

  at::Tensor forward(at::Tensor x, at::Tensor const& future) const {
    x = attn->forward(ln_1->forward(x), future) + x;
    return x + mlp->forward(ln_2->forward(x));
  }

  std::shared_ptr<TimmNorm> ln_1;
  std::shared_ptr<CausalAttention> attn;
  std::shared_ptr<TimmNorm> ln_2;
  std::shared_ptr<Gpt2Mlp> mlp;
};

PreparedStep make_gpt2(std::string const& name, Gpt2Options options, c10::Device device, Recipe const& recipe) {
  RecipeAbilities abilities;
  abilities.longest_sequence = options.positions;
  abilities.checkpoint = true;
  check_recipe(name, recipe, device, abilities);
  options.checkpoint = recipe.checkpoint;
  auto const network = std::make_shared<Gpt2>(options, device);
  Learner learner;
  learner.module = network;
  learner.draw_inputs = [length = recipe.sequence_length.value_or(options.positions),
                         vocabulary = options.vocabulary](Trial const& trial) {
    auto const tokens = torch::TensorOptions().dtype(torch::kInt64).device(trial.device());
    return torch::randint(vocabulary, {trial.batch_size(), length}, tokens);
  };
  learner.loss = [network](at::Tensor const& tokens, at::Tensor const& /*targets*/) { return network->loss(tokens); };
  return prepare_training_step(std::move(learner), recipe);
}

}  // namespace

struct Gpt2::Parts {
  std::shared_ptr<Embedding> wte;
  std::shared_ptr<Embedding> wpe;
  std::vector<std::shared_ptr<Gpt2Block>> blocks;
  std::shared_ptr<TimmNorm> ln_f;
};

Gpt2::Gpt2(Gpt2Options const& options, c10::Device device) : options_(options), parts_(std::make_shared<Parts>()) {
  check(options_);
  auto& parts = *parts_;
  auto const transformer = register_module("transformer", std::make_shared<torch::nn::Module>());
  parts.wte =
      transformer->register_module("wte", std::make_shared<Embedding>(options_.vocabulary, options_.width, device));
  parts.wpe =
      transformer->register_module("wpe", std::make_shared<Embedding>(options_.positions, options_.width, device));
  auto const blocks = transformer->register_module("h", std::make_shared<torch::nn::Module>());
  for (std::int64_t i = 0; i < options_.layers; ++i) {
    parts.blocks.push_back(blocks->register_module(std::to_string(i), std::make_shared<Gpt2Block>(options_, device)));
  }
  parts.ln_f = transformer->register_module("ln_f", std::make_shared<TimmNorm>(options_.width, device));
}

at::Tensor Gpt2::forward(at::Tensor const& tokens) {
  auto const& parts = *parts_;
  if (tokens.dim() != 2 || tokens.size(1) < 1 || tokens.size(1) > options_.positions) {
    throw InvalidArgument("GPT-2 takes token numbers [N, tokens] of 1 to " + std::to_string(options_.positions) +
                          " tokens, and was given " + c10::str(tokens.sizes()));
  }
  auto const length = tokens.size(1);
  auto x = at::embedding(parts.wte->weight, tokens) + parts.wpe->weight.slice(0, 0, length);
  x = at::dropout(x, options_.dropout, is_training());
  at::Tensor future;
  if (options_.attention == Attention::written_out) {
    // In the type of the scores: autocast would make a copy of it for each head of each sample.
    auto const type = x.device().type();
    auto const dtype =
        at::autocast::is_autocast_enabled(type) ? at::autocast::get_autocast_dtype(type) : x.scalar_type();
    future = at::full({length, length}, -std::numeric_limits<double>::infinity(), at::device(x.device()).dtype(dtype))
                 .triu_(1);
  }
  for (auto const& block : parts.blocks) {
    if (options_.checkpoint) {
      x = checkpoint(
          [block, future](std::vector<at::Tensor> const& inputs) { return block->forward(inputs[0], future); },
          {std::move(x)}, block->parameters());
    } else {
      x = block->forward(std::move(x), future);
    }
  }
  return at::linear(parts.ln_f->forward(x), parts.wte->weight);
}

at::Tensor Gpt2::loss(at::Tensor const& tokens) {
  auto const logits = forward(tokens);
  // Of the last token nobody knows the next: it is left out by its number, which costs less than a copy of the logits.
  auto const wide = logits.scalar_type() == at::kDouble ? logits : logits.to(at::kFloat);
  auto const next = at::constant_pad_nd(tokens, {0, 1}, -100).slice(1, 1).reshape({-1});
  return at::cross_entropy_loss(wide.view({-1, options_.vocabulary}), next, {}, at::Reduction::Mean,
                                /*ignore_index=*/-100);
}

void Gpt2::load_weights(std::string const& file) { load_state_dict(*this, file, {"lm_head.weight"}); }

std::int64_t parameter_count(Gpt2Options const& options) {
  check(options);
  auto const width = options.width;
  auto const block = 4 * width + (4 * width * width + 4 * width) + (8 * width * width + 5 * width);
  return (options.vocabulary + options.positions) * width + options.layers * block + 2 * width;
}

ModelFactory gpt2_factory(std::string name, std::string description, Gpt2Options const& options) {
  ModelFactory factory;
  factory.name = std::move(name);
  factory.description = std::move(description);
  factory.parameters = parameter_count(options);
  factory.sequence_length = options.positions;
  factory.make = [name = factory.name, options](c10::Device device, Recipe const& recipe) {
    return make_gpt2(name, options, device, recipe);
  };
  return factory;
}

std::vector<ModelFactory> gpt2_factories() {
  Gpt2Options const written_out;
  auto fused = written_out;
  fused.attention = Attention::fused;
  return {gpt2_factory("gpt2", "GPT-2 of 12 layers, 1024 tokens a sample", written_out),
          gpt2_factory("gpt2_fused", "GPT-2 of 12 layers, 1024 tokens a sample, fused attention", fused)};
}

}  // namespace maxbatch::models
