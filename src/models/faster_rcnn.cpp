#include "detection/box_heads.hpp"
#include "detection/feature_pyramid.hpp"
#include "detection/image_batch.hpp"
#include "detection/region_proposals.hpp"
#include "detection/truth.hpp"
#include <maxbatch/models/faster_rcnn.hpp>
#include <maxbatch/search/errors.hpp>

#include <torch/torch.h>

#include <algorithm>
#include <string>
#include <utility>

namespace maxbatch::models {
namespace {

constexpr std::int64_t kPyramidChannels = 256;

void check(FasterRcnnOptions const& options) {
  auto const refuse = [](std::string const& what) { throw InvalidArgument("no Faster R-CNN has " + what); };
  if (options.classes < 2) {
    refuse(std::to_string(options.classes) + " classes: the background is one, and there is another at least");
  }
  for (auto const& [name, value] :
       {std::pair("proposals_before_nms (training)", options.proposals_before_nms[0]),
        std::pair("proposals_before_nms (inference)", options.proposals_before_nms[1]),
        std::pair("proposals_after_nms (training)", options.proposals_after_nms[0]),
        std::pair("proposals_after_nms (inference)", options.proposals_after_nms[1]),
        std::pair("anchors_sampled", options.anchors_sampled), std::pair("boxes_sampled", options.boxes_sampled),
        std::pair("detections_per_image", options.detections_per_image)}) {
    if (value < 1) { refuse(std::string(name) + " " + std::to_string(value) + ": it needs at least one"); }
  }
  for (auto const& [name, value] :
       {std::pair("positive_anchors", options.positive_anchors), std::pair("positive_boxes", options.positive_boxes)}) {
    if (!(value >= 0 && value <= 1)) {
      refuse(std::string(name) + " " + std::to_string(value) + ": it is a share, 0 to 1");
    }
  }
}

std::int64_t largest_height(ImageBatch const& batch) {
  std::int64_t largest = 0;
  for (auto const& size : batch.sizes) { largest = std::max(largest, size.height); }
  return largest;
}

ResNetOptions body_of(FasterRcnnOptions const& options) {
  ResNetOptions body;
  body.depths = options.depths;
  body.width = options.width;
  body.classes = 0;
  body.norm = options.norm;
  body.norm_epsilon = options.norm_epsilon;
  return body;
}

}  // namespace

struct FasterRcnn::Parts {
  ImagePreparation preparation;
  std::shared_ptr<ResNet> body;
  std::shared_ptr<FeaturePyramid> pyramid;
  std::shared_ptr<RegionProposalNetwork> rpn;
  std::shared_ptr<BoxHeads> heads;

  /// What both training and inference begin with.
  struct Look {
    ImageBatch batch;
    std::vector<at::Tensor> maps;         ///< of the pyramid's top, too
    std::vector<at::Tensor> region_maps;  ///< those that regions are taken from
    AnchorPredictions predictions;
    at::Tensor limits;
  };

  Look look(std::vector<at::Tensor> const& images) const {
    Look look;
    look.batch = batch_images(images, preparation);
    look.maps = pyramid->forward(body->feature_maps(look.batch.images));
    look.region_maps.assign(look.maps.begin(), look.maps.end() - 1);
    look.predictions = rpn->predict(look.maps, {look.batch.images.size(2), look.batch.images.size(3)});
    look.limits = limits_of(look.batch, look.predictions.codes);
    return look;
  }
};

FasterRcnn::FasterRcnn(FasterRcnnOptions const& options, c10::Device device)
    : TorchvisionModule(options.norm), options_(options), parts_(std::make_shared<Parts>()) {
  check(options_);
  auto& parts = *parts_;
  parts.preparation.mean = options_.image_mean;
  parts.preparation.deviation = options_.image_deviation;
  resize_images_to(options_.shorter_side, options_.longer_side);

  auto const backbone = register_module("backbone", std::make_shared<torch::nn::Module>());
  parts.body = backbone->register_module("body", std::make_shared<ResNet>(body_of(options_), device));
  parts.body->train_last(options_.trained_parts);
  std::vector<std::int64_t> channels;
  for (std::int64_t stage = 0; stage < 4; ++stage) { channels.push_back(4 * options_.width << stage); }
  parts.pyramid = backbone->register_module(
      "fpn", std::make_shared<FeaturePyramid>(channels, kPyramidChannels, PyramidTop::pool, device));
  parts.rpn = register_module("rpn", std::make_shared<RegionProposalNetwork>(kPyramidChannels, device));
  parts.heads = register_module("roi_heads", std::make_shared<BoxHeads>(kPyramidChannels, options_.classes,
                                                                        BoxCoder{options_.box_weights}, device));
}

FasterRcnnLosses FasterRcnn::losses(std::vector<at::Tensor> const& images,
                                    std::vector<DetectionTarget> const& targets) {
  if (!is_training()) { throw InvalidArgument("losses are those of a training step: call train() first"); }
  auto const& parts = *parts_;
  auto const look = parts.look(images);
  auto const truth =
      prepare_truth(targets, look.batch.original_sizes, look.batch.sizes, {1, options_.classes - 1}, look.batch.images);

  ProposalOptions propose_options;
  propose_options.before_nms = options_.proposals_before_nms[0];
  propose_options.after_nms = options_.proposals_after_nms[0];
  propose_options.nms_threshold = options_.proposal_nms_threshold;
  propose_options.score_threshold = options_.proposal_score_threshold;
  auto const proposals = propose(look.predictions, look.limits, propose_options);

  ProposalLossOptions anchor_options;
  anchor_options.match_threshold = options_.anchor_match_threshold;
  anchor_options.no_match_threshold = options_.anchor_no_match_threshold;
  anchor_options.samples = options_.anchors_sampled;
  anchor_options.positive_share = options_.positive_anchors;
  auto const of_proposals = proposal_losses(look.predictions, truth, anchor_options);

  BoxSampleOptions box_options;
  box_options.match_threshold = options_.box_match_threshold;
  box_options.no_match_threshold = options_.box_no_match_threshold;
  box_options.samples = options_.boxes_sampled;
  box_options.positive_share = options_.positive_boxes;
  auto const of_boxes =
      parts.heads->losses(look.region_maps, proposals, truth, largest_height(look.batch), box_options);
  return {of_boxes.classifier, of_boxes.regression, of_proposals.objectness, of_proposals.regression};
}

std::vector<Detections> FasterRcnn::detect(std::vector<at::Tensor> const& images) {
  if (is_training()) { throw InvalidArgument("detections are those of a trained model: call eval() first"); }
  at::NoGradGuard const no_gradients;
  auto const& parts = *parts_;
  auto const look = parts.look(images);
  ProposalOptions propose_options;
  propose_options.before_nms = options_.proposals_before_nms[1];
  propose_options.after_nms = options_.proposals_after_nms[1];
  propose_options.nms_threshold = options_.proposal_nms_threshold;
  propose_options.score_threshold = options_.proposal_score_threshold;
  auto const proposals = propose(look.predictions, look.limits, propose_options);

  DetectionOptions detection_options;
  detection_options.score_threshold = options_.box_score_threshold;
  detection_options.nms_threshold = options_.box_nms_threshold;
  detection_options.per_image = options_.detections_per_image;
  auto detections =
      parts.heads->detect(look.region_maps, proposals, look.limits, largest_height(look.batch), detection_options);
  for (std::size_t i = 0; i < detections.size(); ++i) {
    detections[i].boxes = resize_boxes(detections[i].boxes, look.batch.sizes[i], look.batch.original_sizes[i]);
  }
  return detections;
}

void FasterRcnn::resize_images_to(std::int64_t shorter_side, std::int64_t longer_side) {
  set_sides(parts_->preparation, shorter_side, longer_side);
  options_.shorter_side = shorter_side;
  options_.longer_side = longer_side;
}

std::int64_t parameter_count(FasterRcnnOptions const& options) {
  check(options);
  auto const convolution = [](std::int64_t in, std::int64_t out, std::int64_t side) {
    return in * out * side * side + out;
  };
  auto count = parameter_count(body_of(options));
  for (std::int64_t stage = 0; stage < 4; ++stage) {
    count += convolution(4 * options.width << stage, kPyramidChannels, 1) +
             convolution(kPyramidChannels, kPyramidChannels, 3);
  }
  constexpr std::int64_t kAnchors = 3;
  count += convolution(kPyramidChannels, kPyramidChannels, 3) + convolution(kPyramidChannels, 5 * kAnchors, 1);
  return count + BoxHeads::parameter_count(kPyramidChannels, options.classes);
}

}  // namespace maxbatch::models
