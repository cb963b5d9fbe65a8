#pragma once

#include "../layers/linear.hpp"
#include "box_coder.hpp"
#include "region_proposals.hpp"
#include "truth.hpp"
#include <maxbatch/models/detection.hpp>

#include <torch/nn/module.h>

#include <cstdint>
#include <memory>
#include <vector>

namespace maxbatch::models {

struct BoxSampleOptions {
  double match_threshold = 0.5;
  double no_match_threshold = 0.5;
  std::int64_t samples = 512;
  double positive_share = 0.25;
};

struct DetectionOptions {
  double score_threshold = 0.05;
  double nms_threshold = 0.5;
  std::int64_t per_image = 100;
};

/// What the head says of regions.
struct BoxPredictions {
  at::Tensor logits;  ///< [N * P, classes]
  at::Tensor codes;   ///< [N * P, classes, 4]
};

struct BoxLosses {
  at::Tensor classifier;
  at::Tensor regression;
};

/// The heads that look at proposals, with torchvision's names: "box_head.fc6.weight", ….
struct BoxHeads : torch::nn::Module {
  BoxHeads(std::int64_t channels, std::int64_t classes, BoxCoder const& coder, c10::Device device);

  /// maps: the levels of the pyramid that regions are taken from.  boxes: [N, P, 4].
  BoxPredictions predict(std::vector<at::Tensor> const& maps, at::Tensor const& boxes,
                         std::int64_t largest_image_height) const;

  /// Samples of the proposals and the true boxes, and how wrong the head is about them.  Synchronises: no.
  BoxLosses losses(std::vector<at::Tensor> const& maps, Proposals const& proposals, Truth const& truth,
                   std::int64_t largest_image_height, BoxSampleOptions const& options) const;

  /// Detections in the resized images.  Synchronises: twice.
  std::vector<Detections> detect(std::vector<at::Tensor> const& maps, Proposals const& proposals,
                                 at::Tensor const& limits, std::int64_t largest_image_height,
                                 DetectionOptions const& options) const;

  static std::int64_t parameter_count(std::int64_t channels, std::int64_t classes);

  std::int64_t classes;
  BoxCoder coder;
  std::shared_ptr<Linear> fc6;
  std::shared_ptr<Linear> fc7;
  std::shared_ptr<Linear> cls_score;
  std::shared_ptr<Linear> bbox_pred;
};

}  // namespace maxbatch::models
