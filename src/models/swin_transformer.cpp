#include "swin/block.hpp"
#include "swin/drop_path.hpp"
#include "swin/norm_linear.hpp"
#include <maxbatch/models/state_dict.hpp>
#include <maxbatch/models/swin_transformer.hpp>
#include <maxbatch/search/errors.hpp>
#include <maxbatch/training/checkpoint.hpp>

#include <ATen/autocast_mode.h>
#include <torch/torch.h>

#include <algorithm>
#include <cmath>
#include <utility>

namespace maxbatch::models {
namespace {

constexpr std::int64_t kImageChannels = 3;

SwinOptions options_of(std::int64_t width, std::vector<std::int64_t> depths, std::vector<std::int64_t> heads) {
  SwinOptions options;
  options.width = width;
  options.depths = std::move(depths);
  options.heads = std::move(heads);
  return options;
}

void check(SwinOptions const& options) {
  auto const refuse = [](std::string const& what) { throw InvalidArgument("no Swin Transformer has " + what); };
  auto const stages = options.depths.size();
  if (stages == 0) { refuse("no stages: give `depths`, the number of blocks of each"); }
  if (options.heads.size() != stages) {
    refuse(std::to_string(stages) + " stages (depths) and " + std::to_string(options.heads.size()) +
           " numbers of heads");
  }
  for (auto const& [name, value] : {std::pair("patch_size", options.patch_size), std::pair("classes", options.classes),
                                    std::pair("width", options.width), std::pair("window", options.window),
                                    std::pair("mlp_ratio", options.mlp_ratio)}) {
    if (value < 1) { refuse(std::string(name) + " " + std::to_string(value)); }
  }
  auto channels = options.width;
  for (std::size_t stage = 0; stage < stages; ++stage, channels *= 2) {
    if (options.depths[stage] < 1) { refuse("a stage of " + std::to_string(options.depths[stage]) + " blocks"); }
    if (options.heads[stage] < 1 || channels % options.heads[stage] != 0) {
      refuse(std::to_string(options.heads[stage]) + " heads over " + std::to_string(channels) + " channels (stage " +
             std::to_string(stage) + "): heads divide channels");
    }
  }
  if (!(options.drop_path_rate >= 0 && options.drop_path_rate < 1)) {
    refuse("a drop path rate of " + std::to_string(options.drop_path_rate) + ": rates are in [0, 1)");
  }
  if (std::min(options.image_size.height, options.image_size.width) < options.patch_size) {
    refuse("images of " + std::to_string(options.image_size.height) + "x" + std::to_string(options.image_size.width) +
           " pixels, smaller than its patches of " + std::to_string(options.patch_size));
  }
}

/// Tokens of the first stage.
WindowGrid::Pair map_of(SwinOptions const& options) {
  return {options.image_size.height / options.patch_size, options.image_size.width / options.patch_size};
}

WindowGrid::Pair merged(WindowGrid::Pair map) { return {(map[0] + 1) / 2, (map[1] + 1) / 2}; }

WindowGrid::Pair window_of(SwinOptions const& options, WindowGrid::Pair map) {
  return {std::min(options.window, map[0]), std::min(options.window, map[1])};
}

/// A convolution whose windows do not overlap is a matrix product over patches; written as one it needs no convolution
/// library and gives channels last, which is what follows wants.
struct SwinPatchEmbed : torch::nn::Module {
  SwinPatchEmbed(std::int64_t side_, std::int64_t channels, c10::Device device) : side(side_) {
    proj = register_module("proj", std::make_shared<torch::nn::Module>());
    auto const bound = 1 / std::sqrt(static_cast<double>(kImageChannels * side * side));  // as torch.nn.Conv2d starts
    weight = proj->register_parameter(
        "weight", at::empty({channels, kImageChannels, side, side}, device).uniform_(-bound, bound));
    bias = proj->register_parameter("bias", at::empty({channels}, device).uniform_(-bound, bound));
    norm = register_module("norm", std::make_shared<TimmNorm>(channels, device));
  }

  at::Tensor forward(at::Tensor const& images) const {
    auto const rows = images.size(2) / side;
    auto const columns = images.size(3) / side;
    auto const patches = images.slice(2, 0, rows * side)
                             .slice(3, 0, columns * side)
                             .reshape({images.size(0), kImageChannels, rows, side, columns, side})
                             .permute({0, 2, 4, 1, 3, 5})
                             .reshape({images.size(0), rows, columns, kImageChannels * side * side});
    return norm->forward(at::linear(patches, weight.flatten(1), bias));
  }

  std::int64_t side;
  std::shared_ptr<torch::nn::Module> proj;
  std::shared_ptr<TimmNorm> norm;
  at::Tensor weight;
  at::Tensor bias;
};

/// Four neighbours become one token of twice the channels.
struct SwinPatchMerging : torch::nn::Module {
  SwinPatchMerging(std::int64_t channels, c10::Device device) {
    norm = register_module("norm", std::make_shared<TimmNorm>(4 * channels, device));
    reduction = register_module("reduction", std::make_shared<TimmLinear>(4 * channels, 2 * channels, false, device));
  }

  at::Tensor forward(at::Tensor x) const {
    if (x.size(1) % 2 != 0 || x.size(2) % 2 != 0) {
      x = at::constant_pad_nd(x, {0, 0, 0, x.size(2) % 2, 0, x.size(1) % 2});
    }
    auto const neighbours =
        x.reshape({x.size(0), x.size(1) / 2, 2, x.size(2) / 2, 2, x.size(3)}).permute({0, 1, 3, 4, 2, 5}).flatten(3);
    return norm_linear(neighbours, norm->weight, norm->bias, reduction->weight);
  }

  std::shared_ptr<TimmNorm> norm;
  std::shared_ptr<TimmLinear> reduction;
};

struct SwinStage : torch::nn::Module {
  std::shared_ptr<SwinPatchMerging> downsample;  ///< none in the first stage
  std::vector<std::shared_ptr<SwinBlock>> blocks;
};

at::Tensor run_block(std::shared_ptr<SwinBlock> const& block, at::Tensor x, at::Tensor const& attention_factor,
                     at::Tensor const& mlp_factor, bool checkpointed) {
  if (!checkpointed) { return block->forward(std::move(x), attention_factor, mlp_factor); }
  return checkpoint(
      [block, attention_factor, mlp_factor](std::vector<at::Tensor> const& inputs) {
        return block->forward(inputs[0], attention_factor, mlp_factor);
      },
      {std::move(x)}, block->parameters());
}

std::shared_ptr<SwinStage> make_stage(SwinOptions const& options, std::size_t index, WindowGrid::Pair map,
                                      c10::Device device) {
  auto const channels = options.width << index;
  auto const stage = std::make_shared<SwinStage>();
  if (index > 0) {
    stage->downsample = stage->register_module("downsample", std::make_shared<SwinPatchMerging>(channels / 2, device));
  }
  auto const window = window_of(options, map);
  auto const plain = WindowGrid::of(map, window, false);
  auto const shifted = WindowGrid::of(map, window, true);
  // Blocks share their tables.
  WindowTables plain_tables;
  plain_tables.position = relative_positions(window, device);
  auto shifted_tables = plain_tables;
  if (shifted.is_shifted()) { fill_shift_tables(shifted_tables, shifted, device); }

  auto const blocks = stage->register_module("blocks", std::make_shared<torch::nn::Module>());
  for (std::int64_t i = 0; i < options.depths[index]; ++i) {
    auto const is_odd = i % 2 == 1;
    stage->blocks.push_back(blocks->register_module(
        std::to_string(i),
        std::make_shared<SwinBlock>(channels, options.heads[index], options.mlp_ratio, is_odd, is_odd ? shifted : plain,
                                    is_odd ? shifted_tables : plain_tables, options.attention, device)));
  }
  return stage;
}

/// Which blocks drop their branches, and [branches, 1], how often each is kept: two a block.
struct DropPathPlan {
  explicit DropPathPlan(SwinOptions const& options) {
    std::int64_t blocks = 0;
    for (auto const depth : options.depths) { blocks += depth; }
    // As timm spaces them, in float.
    auto const rates = at::linspace(0, options.drop_path_rate, blocks, at::kFloat);
    std::vector<float> kept;
    for (std::int64_t i = 0; i < blocks; ++i) {
      auto const rate = rates[i].item<float>();
      drops.push_back(rate > 0);
      if (rate > 0) { kept.insert(kept.end(), 2, 1 - rate); }
    }
    if (!kept.empty()) { keep = at::tensor(kept).unsqueeze(1); }
  }

  std::vector<bool> drops;
  at::Tensor keep;
};

}  // namespace

SwinOptions swin_tiny_options() { return options_of(96, {2, 2, 6, 2}, {3, 6, 12, 24}); }
SwinOptions swin_small_options() { return options_of(96, {2, 2, 18, 2}, {3, 6, 12, 24}); }
SwinOptions swin_base_options() { return options_of(128, {2, 2, 18, 2}, {4, 8, 16, 32}); }
SwinOptions swin_large_options() { return options_of(192, {2, 2, 18, 2}, {6, 12, 24, 48}); }

SwinOptions for_384(SwinOptions options) {
  options.image_size = {384, 384};
  options.window = 12;
  return options;
}

struct SwinTransformer::Parts {
  std::shared_ptr<SwinPatchEmbed> patch_embed;
  std::vector<std::shared_ptr<SwinStage>> stages;
  std::shared_ptr<TimmNorm> norm;
  std::shared_ptr<TimmLinear> classify;
  std::vector<bool> drops;  ///< per block
  at::Tensor keep;          ///< see DropPathPlan
};

SwinTransformer::SwinTransformer(SwinOptions const& options, c10::Device device)
    : options_(options), parts_(std::make_shared<Parts>()) {
  check(options_);
  auto& parts = *parts_;
  parts.patch_embed =
      register_module("patch_embed", std::make_shared<SwinPatchEmbed>(options_.patch_size, options_.width, device));
  auto map = map_of(options_);
  auto const layers = register_module("layers", std::make_shared<torch::nn::Module>());
  for (std::size_t i = 0; i < options_.depths.size(); ++i) {
    if (i > 0) { map = merged(map); }
    parts.stages.push_back(layers->register_module(std::to_string(i), make_stage(options_, i, map, device)));
  }
  auto const channels = options_.width << (options_.depths.size() - 1);
  parts.norm = register_module("norm", std::make_shared<TimmNorm>(channels, device));
  auto const head = register_module("head", std::make_shared<torch::nn::Module>());
  parts.classify = head->register_module("fc", std::make_shared<TimmLinear>(channels, options_.classes, true, device));
  DropPathPlan const plan(options_);
  parts.drops = plan.drops;
  if (plan.keep.defined()) { parts.keep = register_buffer("drop_path_keep", plan.keep.to(device)); }
}

at::Tensor SwinTransformer::forward(at::Tensor const& images) {
  auto const& parts = *parts_;
  if (images.dim() != 4 || images.size(1) != kImageChannels ||
      std::min(images.size(2), images.size(3)) < options_.patch_size) {
    throw InvalidArgument("a Swin Transformer takes images [N, 3, H, W] of at least one patch (" +
                          std::to_string(options_.patch_size) + " pixels a side), and was given " +
                          c10::str(images.sizes()));
  }
  auto x = parts.patch_embed->forward(images);

  std::vector<at::Tensor> factors;
  if (is_training() && parts.keep.defined()) {
    auto const device_type = x.device().type();
    factors =
        draw_drop_path(parts.keep, x.size(0),
                       at::autocast::is_autocast_enabled(device_type) ? at::autocast::get_autocast_dtype(device_type)
                                                                      : x.scalar_type());
  }
  at::Tensor const keep_all;
  std::size_t block_index = 0;
  std::size_t factor_index = 0;
  for (auto const& stage : parts.stages) {
    if (stage->downsample) { x = stage->downsample->forward(x); }
    for (auto const& block : stage->blocks) {
      if (!factors.empty() && parts.drops[block_index]) {
        x = run_block(block, std::move(x), factors[factor_index], factors[factor_index + 1], options_.checkpoint);
        factor_index += 2;
      } else {
        x = run_block(block, std::move(x), keep_all, keep_all, options_.checkpoint);
      }
      ++block_index;
    }
  }
  return parts.classify->forward(parts.norm->forward(x).mean({1, 2}));
}

void SwinTransformer::load_weights(std::string const& file) {
  load_state_dict(*this, file,
                  {"relative_position_index", "attn_mask", "token_roll", "token_unroll", "drop_path_keep"});
}

void SwinTransformer::to(c10::Device device, c10::ScalarType dtype, bool non_blocking) {
  Module::to(device, non_blocking);
  to(dtype, non_blocking);
}

void SwinTransformer::to(c10::ScalarType dtype, bool non_blocking) {
  for (auto& parameter : parameters()) { parameter.set_data(parameter.to(dtype, non_blocking)); }
  for (auto& buffer : buffers()) {
    if (buffer.is_floating_point()) { buffer.set_data(buffer.to(dtype, non_blocking)); }
  }
}

std::int64_t parameter_count(SwinOptions const& options) {
  check(options);
  auto const patch = kImageChannels * options.patch_size * options.patch_size;
  auto count = patch * options.width + 3 * options.width;  // projection with bias, norm
  auto map = map_of(options);
  auto channels = options.width;
  for (std::size_t stage = 0; stage < options.depths.size(); ++stage) {
    if (stage > 0) {
      count += 8 * channels + 4 * channels * 2 * channels;  // norm, reduction
      channels *= 2;
      map = merged(map);
    }
    auto const window = window_of(options, map);
    auto const attention =
        4 * channels * channels + 4 * channels + (2 * window[0] - 1) * (2 * window[1] - 1) * options.heads[stage];
    auto const hidden = options.mlp_ratio * channels;
    auto const mlp = 2 * channels * hidden + hidden + channels;
    count += options.depths[stage] * (4 * channels + attention + mlp);
  }
  return count + 2 * channels + channels * options.classes + options.classes;
}

}  // namespace maxbatch::models
