#include "layers/channel_norm.hpp"
#include "layers/convolution.hpp"
#include <maxbatch/models/resnet.hpp>
#include <maxbatch/search/errors.hpp>
#include <maxbatch/training/checkpoint.hpp>

#include <torch/torch.h>

#include <array>
#include <cmath>
#include <string>
#include <utility>

namespace maxbatch::models {
namespace {

constexpr std::int64_t kImageChannels = 3;
constexpr std::size_t kStages = 4;
constexpr std::int64_t kExpansion = 4;  // channels that a block gives, in widths of its 3x3 convolution

void check(ResNetOptions const& options) {
  auto const refuse = [](std::string const& what) { throw InvalidArgument("no ResNet has " + what); };
  if (options.depths.size() != kStages) {
    refuse(std::to_string(options.depths.size()) + " stages: give the blocks of each of four in `depths`");
  }
  for (auto const depth : options.depths) {
    if (depth < 1) { refuse("a stage of " + std::to_string(depth) + " blocks"); }
  }
  if (options.width < 1) { refuse("a width of " + std::to_string(options.width) + " channels"); }
  if (options.classes < 0) { refuse(std::to_string(options.classes) + " classes"); }
  if (!(options.norm_epsilon >= 0)) { refuse("a norm's epsilon of " + std::to_string(options.norm_epsilon)); }
}

/// What makes the layers of one model.
struct Maker {
  ResNetOptions const& options;
  c10::Device device;

  std::shared_ptr<Convolution> convolution(std::int64_t in, std::int64_t out, std::int64_t side,
                                           std::int64_t stride = 1) const {
    auto made = std::make_shared<Convolution>(Convolution::Shape{in, out, side, stride, /*bias=*/false}, device);
    draw_for_relu(*made);
    return made;
  }
  std::shared_ptr<ChannelNorm> norm(std::int64_t channels) const {
    return std::make_shared<ChannelNorm>(options.norm, channels, options.norm_epsilon, device);
  }
};

struct Bottleneck : torch::nn::Module {
  Bottleneck(Maker const& make, std::int64_t in, std::int64_t width, std::int64_t stride) {
    auto const out = kExpansion * width;
    conv1 = register_module("conv1", make.convolution(in, width, 1));
    bn1 = register_module("bn1", make.norm(width));
    conv2 = register_module("conv2", make.convolution(width, width, 3, stride));
    bn2 = register_module("bn2", make.norm(width));
    conv3 = register_module("conv3", make.convolution(width, out, 1));
    bn3 = register_module("bn3", make.norm(out));
    if (stride != 1 || in != out) {
      auto const downsample = register_module("downsample", std::make_shared<torch::nn::Module>());
      shortcut = downsample->register_module("0", make.convolution(in, out, 1, stride));
      shortcut_norm = downsample->register_module("1", make.norm(out));
    }
  }

  at::Tensor forward(at::Tensor const& x) const {
    auto out = bn1->forward_relu(conv1->forward(x));
    out = bn2->forward_relu(conv2->forward(out));
    out = conv3->forward(out);
    if (!shortcut) { return bn3->forward_add_relu(out, x); }
    if (bn3->kind == NormKind::frozen) {  // one kernel, which needs the shortcut
      return bn3->forward_add_relu(out, shortcut_norm->forward(shortcut->forward(x)));
    }
    // In torchvision's order, which decides what is alive together in the backward pass.
    out = bn3->forward(out);
    return out.add_(shortcut_norm->forward(shortcut->forward(x))).relu_();
  }

  std::shared_ptr<Convolution> conv1;
  std::shared_ptr<ChannelNorm> bn1;
  std::shared_ptr<Convolution> conv2;
  std::shared_ptr<ChannelNorm> bn2;
  std::shared_ptr<Convolution> conv3;
  std::shared_ptr<ChannelNorm> bn3;
  std::shared_ptr<Convolution> shortcut;  ///< none where the block changes neither size nor channels
  std::shared_ptr<ChannelNorm> shortcut_norm;
};

}  // namespace

struct ResNet::Parts {
  std::shared_ptr<Convolution> conv1;
  std::shared_ptr<ChannelNorm> bn1;
  std::array<std::vector<std::shared_ptr<Bottleneck>>, kStages> stages;
  std::shared_ptr<torch::nn::Module> fc;
  at::Tensor fc_weight;
  at::Tensor fc_bias;
  std::vector<std::shared_ptr<ChannelNorm>> counting_norms;
};

ResNet::ResNet(ResNetOptions const& options, c10::Device device)
    : TorchvisionModule(options.norm), options_(options), parts_(std::make_shared<Parts>()) {
  models::check(options_);
  auto& parts = *parts_;
  Maker const make{options_, device};
  parts.conv1 = register_module("conv1", make.convolution(kImageChannels, options_.width, 7, 2));
  parts.bn1 = register_module("bn1", make.norm(options_.width));
  auto channels = options_.width;
  for (std::size_t stage = 0; stage < kStages; ++stage) {
    auto const layer = register_module("layer" + std::to_string(stage + 1), std::make_shared<torch::nn::Module>());
    auto const width = options_.width << stage;
    for (std::int64_t i = 0; i < options_.depths[stage]; ++i) {
      auto const stride = i == 0 && stage > 0 ? 2 : 1;
      parts.stages[stage].push_back(
          layer->register_module(std::to_string(i), std::make_shared<Bottleneck>(make, channels, width, stride)));
      channels = kExpansion * width;
    }
  }
  if (options_.classes > 0) {
    parts.fc = register_module("fc", std::make_shared<torch::nn::Module>());
    auto const bound = 1 / std::sqrt(static_cast<double>(channels));  // as torch.nn.Linear starts
    parts.fc_weight =
        parts.fc->register_parameter("weight", at::empty({options_.classes, channels}, device).uniform_(-bound, bound));
    parts.fc_bias = parts.fc->register_parameter("bias", at::empty({options_.classes}, device).uniform_(-bound, bound));
  }
  for (auto const& module : modules(/*include_self=*/false)) {
    if (auto norm = std::dynamic_pointer_cast<ChannelNorm>(module); norm && norm->num_batches_tracked.defined()) {
      parts.counting_norms.push_back(std::move(norm));
    }
  }
}

void ResNet::check(at::Tensor const& images) const {
  if (images.dim() != 4 || images.size(1) != kImageChannels || images.size(2) < 1 || images.size(3) < 1) {
    throw InvalidArgument("a ResNet takes images [N, 3, H, W], and was given " + c10::str(images.sizes()));
  }
}

void ResNet::count_batch() const {
  if (!is_training() || parts_->counting_norms.empty()) { return; }
  std::vector<at::Tensor> counters;  // all in one kernel
  counters.reserve(parts_->counting_norms.size());
  for (auto const& norm : parts_->counting_norms) { counters.push_back(norm->num_batches_tracked); }
  at::_foreach_add_(counters, 1);
}

at::Tensor ResNet::run_stem(at::Tensor const& images) const {
  return at::max_pool2d(parts_->bn1->forward_relu(parts_->conv1->forward(images)), {3, 3}, {2, 2}, {1, 1});
}

at::Tensor ResNet::run_stage(std::size_t stage, at::Tensor x) const {
  for (auto const& block : parts_->stages.at(stage)) {
    x = options_.checkpoint ? checkpoint([block](std::vector<at::Tensor> const& in) { return block->forward(in[0]); },
                                         {x}, block->parameters())
                            : block->forward(x);
  }
  return x;
}

at::Tensor ResNet::run_head(at::Tensor const& x) const {
  if (!parts_->fc) { throw InvalidArgument("this ResNet was made without a classifier (classes is 0)"); }
  return at::linear(at::adaptive_avg_pool2d(x, {1, 1}).flatten(1), parts_->fc_weight, parts_->fc_bias);
}

at::Tensor ResNet::forward(at::Tensor const& images) {
  check(images);
  count_batch();
  auto x = run_stem(images);
  for (std::size_t stage = 0; stage < kStages; ++stage) { x = run_stage(stage, std::move(x)); }
  return run_head(x);
}

std::vector<at::Tensor> ResNet::feature_maps(at::Tensor const& images) {
  check(images);
  count_batch();
  std::vector<at::Tensor> maps;
  auto x = run_stem(images);
  for (std::size_t stage = 0; stage < kStages; ++stage) {
    x = run_stage(stage, std::move(x));
    maps.push_back(x);
  }
  return maps;
}

void ResNet::train_last(std::int64_t parts) {
  constexpr auto kAll = static_cast<std::int64_t>(kStages) + 1;
  if (parts < 0 || parts > kAll) {
    throw InvalidArgument("a ResNet has 5 parts that can be trained, stem and four stages: " + std::to_string(parts) +
                          " is not in 0 to 5");
  }
  for (auto& item : named_parameters()) {
    auto const& name = item.key();
    if (name.rfind("fc.", 0) == 0) { continue; }
    // "layer3.0.conv1.weight" is part 3; the stem is part 0.
    auto const part = name.rfind("layer", 0) == 0 ? static_cast<std::int64_t>(name[5] - '0') : 0;
    item.value().set_requires_grad(part >= kAll - parts && (part > 0 || name.rfind("conv1.", 0) == 0 || parts == kAll));
  }
}

std::int64_t parameter_count(ResNetOptions const& options) {
  check(options);
  // Frozen norms have buffers.
  auto const norm = [&](std::int64_t channels) { return options.norm == NormKind::batch ? 2 * channels : 0; };
  auto count = kImageChannels * options.width * 7 * 7 + norm(options.width);
  auto channels = options.width;
  for (std::size_t stage = 0; stage < kStages; ++stage) {
    auto const width = options.width << stage;
    auto const out = kExpansion * width;
    for (std::int64_t i = 0; i < options.depths[stage]; ++i) {
      count += channels * width + width * width * 9 + width * out + 2 * norm(width) + norm(out);
      if (i == 0 && (stage > 0 || channels != out)) { count += channels * out + norm(out); }
      channels = out;
    }
  }
  return options.classes > 0 ? count + channels * options.classes + options.classes : count;
}

}  // namespace maxbatch::models
