#include "detection/anchors.hpp"
#include "detection/box_coder.hpp"
#include "detection/class_suppression.hpp"
#include "detection/feature_pyramid.hpp"
#include "detection/focal_loss.hpp"
#include "detection/image_batch.hpp"
#include "detection/join_levels.hpp"
#include "detection/truth.hpp"
#include "layers/nested.hpp"
#include <maxbatch/models/retinanet.hpp>
#include <maxbatch/search/errors.hpp>

#include <torch/torch.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

namespace maxbatch::models {
namespace {

constexpr std::int64_t kPyramidChannels = 256;
constexpr int kHeadDepth = 4;
constexpr double kPrior = 0.01;  // what a class's probability starts with

void check(RetinaNetOptions const& options) {
  auto const refuse = [](std::string const& what) { throw InvalidArgument("no RetinaNet has " + what); };
  if (options.classes < 1) { refuse(std::to_string(options.classes) + " classes"); }
  if (options.candidates_of_level < 1 || options.detections_per_image < 1) {
    refuse("fewer than one candidate of a level or detection of an image");
  }
}

/// Sides of a level's square anchors: three in an octave.
std::vector<std::vector<std::int64_t>> anchor_sides() {
  std::vector<std::vector<std::int64_t>> sides;
  for (auto const side : {32, 64, 128, 256, 512}) {
    sides.push_back({side, static_cast<std::int64_t>(side * std::pow(2.0, 1.0 / 3)),
                     static_cast<std::int64_t>(side * std::pow(2.0, 2.0 / 3))});
  }
  return sides;
}

/// Four convolutions and one that says something of each anchor, the same on all levels.
struct Head {
  std::vector<std::shared_ptr<Convolution>> hidden;
  std::shared_ptr<Convolution> last;

  /// [N, A, values]
  at::Tensor run(std::vector<at::Tensor> const& maps, std::int64_t values) const {
    std::vector<at::Tensor> said;
    for (auto const& map : maps) {
      auto x = map;
      for (auto const& convolution : hidden) { x = convolution->forward(x).relu_(); }
      said.push_back(last->forward(x));
    }
    return join_levels(said, values);
  }
};

Head make_head(torch::nn::Module& root, std::string const& name, std::string const& last, std::int64_t out,
               c10::Device device) {
  auto const convolution = [&](std::int64_t channels) {
    auto made =
        std::make_shared<Convolution>(Convolution::Shape{kPyramidChannels, channels, 3, 1, /*bias=*/true}, device);
    at::NoGradGuard const no_gradients;
    made->weight.normal_(0, 0.01);
    return made;
  };
  Head head;
  for (int i = 0; i < kHeadDepth; ++i) {
    head.hidden.push_back(nested(root, {"head", name, "conv", std::to_string(i)}, "0", convolution(kPyramidChannels)));
  }
  head.last = nested(root, {"head", name}, last, convolution(out));
  return head;
}

struct Predictions {
  ImageBatch batch;
  at::Tensor logits;   ///< [N, A, classes]
  at::Tensor codes;    ///< [N, A, 4]
  at::Tensor anchors;  ///< [A, 4]
  std::vector<std::int64_t> level_sizes;
};

ResNetOptions body_of(RetinaNetOptions const& options) {
  ResNetOptions body;
  body.depths = options.depths;
  body.width = options.width;
  body.classes = 0;
  body.norm = options.norm;
  body.norm_epsilon = options.norm_epsilon;
  return body;
}

}  // namespace

struct RetinaNet::Parts {
  ImagePreparation preparation;
  std::shared_ptr<ResNet> body;
  std::shared_ptr<FeaturePyramid> pyramid;
  AnchorGrid grid{anchor_sides(), {0.5, 1.0, 2.0}};
  Head classification;
  Head regression;

  Predictions predict(std::vector<at::Tensor> const& images, std::int64_t classes) const {
    Predictions predictions;
    predictions.batch = batch_images(images, preparation);
    auto const& batch = predictions.batch.images;
    auto stages = body->feature_maps(batch);
    stages.erase(stages.begin());  // its anchors would be too many
    auto const maps = pyramid->forward(stages);
    predictions.logits = classification.run(maps, classes);
    predictions.codes = regression.run(maps, 4);
    predictions.anchors = grid.over(maps, {batch.size(2), batch.size(3)}, predictions.codes.scalar_type());
    for (auto const& map : maps) { predictions.level_sizes.push_back(map.size(2) * map.size(3) * grid.per_pixel()); }
    return predictions;
  }
};

RetinaNet::RetinaNet(RetinaNetOptions const& options, c10::Device device)
    : TorchvisionModule(options.norm), options_(options), parts_(std::make_shared<Parts>()) {
  check(options_);
  auto& parts = *parts_;
  parts.preparation.mean = options_.image_mean;
  parts.preparation.deviation = options_.image_deviation;
  resize_images_to(options_.shorter_side, options_.longer_side);

  auto const backbone = register_module("backbone", std::make_shared<torch::nn::Module>());
  parts.body = backbone->register_module("body", std::make_shared<ResNet>(body_of(options_), device));
  parts.body->train_last(options_.trained_parts);
  std::vector<std::int64_t> const channels = {8 * options_.width, 16 * options_.width, 32 * options_.width};
  parts.pyramid = backbone->register_module(
      "fpn", std::make_shared<FeaturePyramid>(channels, kPyramidChannels, PyramidTop::convolutions, device));
  parts.classification =
      make_head(*this, "classification_head", "cls_logits", options_.classes * parts.grid.per_pixel(), device);
  parts.regression = make_head(*this, "regression_head", "bbox_reg", 4 * parts.grid.per_pixel(), device);
  at::NoGradGuard const no_gradients;
  parts.classification.last->bias.fill_(-std::log((1 - kPrior) / kPrior));
}

RetinaNetLosses RetinaNet::losses(std::vector<at::Tensor> const& images, std::vector<DetectionTarget> const& targets) {
  if (!is_training()) { throw InvalidArgument("losses are those of a training step: call train() first"); }
  auto const predictions = parts_->predict(images, options_.classes);
  auto const& batch = predictions.batch;
  auto const truth = prepare_truth(targets, batch.original_sizes, batch.sizes, {0, options_.classes - 1}, batch.images);

  MatchThresholds thresholds;
  thresholds.low = options_.no_match_threshold;
  thresholds.high = options_.match_threshold;
  thresholds.low_quality_matches = true;
  auto const matches = match_boxes(truth.boxes, predictions.anchors, thresholds);  // [N, A]
  auto const is_match = matches >= 0;
  auto const matched = matches.clamp_min(0).flatten();
  auto const type = predictions.codes.scalar_type();
  auto const match_count = is_match.sum(1).clamp_min_(1).to(type);  // [N]

  // What an anchor is not matched with says already how it counts: -1 as background, below not at all.
  auto const labels = at::where(is_match, truth.labels.index_select(0, matched).view(matches.sizes()), matches);
  auto const classification = sigmoid_focal_loss(predictions.logits, labels);

  auto const true_boxes = truth.boxes.boxes.index_select(0, matched).view({matches.size(0), -1, 4});
  auto const is_unused = is_match.logical_not().unsqueeze(-1);
  auto const wanted = BoxCoder{}.encode(true_boxes, predictions.anchors).masked_fill_(is_unused, 0);
  auto const regression = (predictions.codes - wanted).masked_fill(is_unused, 0).abs().sum({1, 2});
  return {(classification / match_count).mean(), (regression / match_count).mean()};
}

std::vector<Detections> RetinaNet::detect(std::vector<at::Tensor> const& images) {
  if (is_training()) { throw InvalidArgument("detections are those of a trained model: call eval() first"); }
  at::NoGradGuard const no_gradients;
  auto const predictions = parts_->predict(images, options_.classes);
  auto const limits = limits_of(predictions.batch, predictions.codes);
  auto const image_count = predictions.codes.size(0);

  // The best of each level, in as many places whatever there is.
  std::vector<at::Tensor> boxes;
  std::vector<at::Tensor> scores;
  std::vector<at::Tensor> labels;
  std::int64_t offset = 0;
  for (auto const size : predictions.level_sizes) {
    auto const of_level = predictions.logits.narrow(1, offset, size).sigmoid().flatten(1);
    auto const [best, place] = of_level.masked_fill(of_level <= options_.score_threshold, -1)
                                   .topk(std::min(options_.candidates_of_level, of_level.size(1)), 1);
    auto const anchor = place.div(options_.classes, "floor");
    auto const anchors =
        predictions.anchors.narrow(0, offset, size).index_select(0, anchor.flatten()).view({image_count, -1, 4});
    boxes.push_back(clip_boxes(
        BoxCoder{}.decode(gather_boxes(predictions.codes.narrow(1, offset, size), anchor), anchors), limits));
    scores.push_back(best);
    labels.push_back(place - anchor * options_.classes);
    offset += size;
  }
  ClassCandidates candidates;
  auto const all_boxes = at::cat(boxes, 1);
  auto const all_scores = at::cat(scores, 1);
  auto const all_labels = at::cat(labels, 1);
  auto const is_there = all_scores > options_.score_threshold;
  candidates.boxes = all_boxes.view({-1, 4});
  candidates.compared = moved_as_torchvision_does(all_boxes, all_labels, is_there).view({-1, 4});
  candidates.scores = all_scores.flatten();
  candidates.labels = all_labels.flatten();
  candidates.images = at::arange(image_count, all_labels.options()).unsqueeze(1).expand(all_labels.sizes()).flatten();
  candidates.is_there = is_there.flatten();
  candidates.classes = options_.classes;
  candidates.image_count = image_count;
  auto detections = best_detections(candidates, options_.nms_threshold, options_.detections_per_image);
  for (std::size_t i = 0; i < detections.size(); ++i) {
    detections[i].boxes =
        resize_boxes(detections[i].boxes, predictions.batch.sizes[i], predictions.batch.original_sizes[i]);
  }
  return detections;
}

void RetinaNet::resize_images_to(std::int64_t shorter_side, std::int64_t longer_side) {
  set_sides(parts_->preparation, shorter_side, longer_side);
  options_.shorter_side = shorter_side;
  options_.longer_side = longer_side;
}

std::int64_t parameter_count(RetinaNetOptions const& options) {
  check(options);
  auto const convolution = [](std::int64_t in, std::int64_t out, std::int64_t side) {
    return in * out * side * side + out;
  };
  auto const square = convolution(kPyramidChannels, kPyramidChannels, 3);
  auto count = parameter_count(body_of(options));
  for (std::int64_t stage = 1; stage < 4; ++stage) {
    count += convolution(4 * options.width << stage, kPyramidChannels, 1) + square;
  }
  constexpr std::int64_t kAnchors = 9;
  return count + 2 * square + 2 * kHeadDepth * square +
         convolution(kPyramidChannels, (options.classes + 4) * kAnchors, 3);
}

}  // namespace maxbatch::models
