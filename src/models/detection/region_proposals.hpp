#pragma once

#include "../layers/convolution.hpp"
#include "anchors.hpp"
#include "box_coder.hpp"
#include "image_batch.hpp"
#include "truth.hpp"

#include <torch/nn/module.h>

#include <cstdint>
#include <memory>
#include <vector>

namespace maxbatch::models {

/// Which boxes of each image are worth a closer look, padded to as many for all images.
struct Proposals {
  at::Tensor boxes;     ///< [N, P, 4], best first; anything where there is none
  at::Tensor is_there;  ///< [N, P] bool
};

struct ProposalOptions {
  std::int64_t before_nms = 2000;  ///< of each level
  std::int64_t after_nms = 2000;   ///< of an image
  double nms_threshold = 0.7;
  double score_threshold = 0;
};

struct ProposalLossOptions {
  double match_threshold = 0.7;
  double no_match_threshold = 0.3;
  std::int64_t samples = 256;
  double positive_share = 0.5;
};

struct ProposalLosses {
  at::Tensor objectness;
  at::Tensor regression;
};

/// What the head says, of all anchors of all levels.
struct AnchorPredictions {
  at::Tensor objectness;                  ///< [N, A], logits
  at::Tensor codes;                       ///< [N, A, 4]: see BoxCoder
  at::Tensor anchors;                     ///< [A, 4]
  std::vector<std::int64_t> level_sizes;  ///< how many of the A are of each level
};

/// The region proposal network of arXiv:1506.01497, with torchvision's names: "head.conv.0.0.weight", ….
struct RegionProposalNetwork : torch::nn::Module {
  RegionProposalNetwork(std::int64_t channels, c10::Device device);

  /// maps: of the feature pyramid.  image: height and width of the batch.
  AnchorPredictions predict(std::vector<at::Tensor> const& maps, ImageSize image) const;

  std::shared_ptr<Convolution> conv;
  std::shared_ptr<Convolution> cls_logits;
  std::shared_ptr<Convolution> bbox_pred;
  AnchorGrid grid;
};

/// limits: [N, 4], see clip_boxes.  Records no gradients.  Synchronises: no.
Proposals propose(AnchorPredictions const& predictions, at::Tensor const& limits, ProposalOptions const& options);

/// Synchronises: no.
ProposalLosses proposal_losses(AnchorPredictions const& predictions, Truth const& truth,
                               ProposalLossOptions const& options);

/// Sum over what is used of smooth L1 losses with torchvision's beta for detectors. Codes [..., 4]; is_used [...]: what is
/// not may be no number.
at::Tensor smooth_l1_sum(at::Tensor const& codes, at::Tensor const& targets, at::Tensor const& is_used);

}  // namespace maxbatch::models
