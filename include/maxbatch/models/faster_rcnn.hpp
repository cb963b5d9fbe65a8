#pragma once

#include <maxbatch/models/detection.hpp>
#include <maxbatch/models/resnet.hpp>
#include <maxbatch/models/torchvision_module.hpp>
#include <maxbatch/training/model_factory.hpp>

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace maxbatch::models {

/// Options of Faster R-CNN, with torchvision's defaults and, where there are two, its order: training, then inference.
struct FasterRcnnOptions {
  std::int64_t classes = 91;  ///< the background included
  /// Of the backbone. torchvision freezes norms, and all but the last three parts, where it starts from trained weights, and
  /// neither where it does not.
  NormKind norm = NormKind::frozen;
  std::int64_t trained_parts = 3;  ///< of the backbone, 0 to 5: see ResNet::train_last
  double norm_epsilon = 1e-5;      ///< 0 for the weights that torchvision offers as COCO_V1
  std::vector<std::int64_t> depths = {3, 4, 6, 3};
  std::int64_t width = 64;

  std::int64_t shorter_side = 800;  ///< images are resized so that no side is longer than it may be
  std::int64_t longer_side = 1333;
  std::array<double, 3> image_mean = {0.485, 0.456, 0.406};
  std::array<double, 3> image_deviation = {0.229, 0.224, 0.225};

  std::array<std::int64_t, 2> proposals_before_nms = {2000, 1000};  ///< of each level of the pyramid
  std::array<std::int64_t, 2> proposals_after_nms = {2000, 1000};   ///< of an image
  double proposal_nms_threshold = 0.7;
  double proposal_score_threshold = 0;
  double anchor_match_threshold = 0.7;     ///< an anchor that overlaps as much with an object is a positive example
  double anchor_no_match_threshold = 0.3;  ///< and one that overlaps less a negative one
  std::int64_t anchors_sampled = 256;      ///< of an image, for the losses
  double positive_anchors = 0.5;           ///< of those, at most

  double box_match_threshold = 0.5;
  double box_no_match_threshold = 0.5;
  std::int64_t boxes_sampled = 512;
  double positive_boxes = 0.25;
  std::array<double, 4> box_weights = {10, 10, 5, 5};
  double box_score_threshold = 0.05;
  double box_nms_threshold = 0.5;
  std::int64_t detections_per_image = 100;
};

/// The four parts of the loss, each a number.
struct FasterRcnnLosses {
  at::Tensor classifier;
  at::Tensor box_regression;
  at::Tensor objectness;
  at::Tensor proposal_regression;

  at::Tensor total() const { return classifier + box_regression + objectness + proposal_regression; }
};

/// Faster R-CNN (arXiv:1506.01497) with a ResNet-FPN backbone, equal to torchvision 0.26's `fasterrcnn_resnet50_fpn` for the
/// same weights: parameters and buffers have torchvision's names, so a state dict saved from Python loads by `load_weights`.
/// Weights start as torchvision's do where it starts without trained ones.
///
/// A training step has shapes that depend on the images' sizes alone: proposals and samples are padded to their configured
/// maximum, and padding counts for nothing. So its memory does not depend on what is in the images, and nothing in it waits
/// for the device. docs/detectors.md has the details.
class FasterRcnn : public TorchvisionModule {
 public:
  /// Builds the weights on `device`.  Throws: InvalidArgument for options that make no model.
  explicit FasterRcnn(FasterRcnnOptions const& options = {}, c10::Device device = c10::Device(c10::kCPU));

  /// The losses of a training step. images: each [3, H, W] in [0, 1], of any sizes, on the model's device. The module is
  /// in training mode.  Synchronises: no.  Throws: InvalidArgument for images or targets that are none.
  FasterRcnnLosses losses(std::vector<at::Tensor> const& images, std::vector<DetectionTarget> const& targets);

  /// What is in the images. The module is in evaluation mode; no gradients are recorded.
  /// Synchronises: twice a batch: for the number of boxes above the score threshold, and for what is left of them.
  std::vector<Detections> detect(std::vector<at::Tensor> const& images);

  /// Changes what images are resized to: no side is longer than it may be, and one is as long.
  /// Throws: InvalidArgument for sides that no image has.
  void resize_images_to(std::int64_t shorter_side, std::int64_t longer_side);

  FasterRcnnOptions const& options() const { return options_; }

 private:
  struct Parts;

  FasterRcnnOptions options_;
  std::shared_ptr<Parts> parts_;
};

/// Number of parameters of a model with these options.  Throws: InvalidArgument for options that make no model.
std::int64_t parameter_count(FasterRcnnOptions const& options);

/// A factory that trains such a model, or detects, on random images drawn inside the step. The image size of a recipe or trial
/// is that of the images, and what they are resized to: nothing.
ModelFactory faster_rcnn_factory(std::string name, std::string description, FasterRcnnOptions const& options,
                                 DetectionImages const& images);

/// faster_rcnn: frozen norms and three trained parts of the backbone, as torchvision fine-tunes; images of both orientations with 100
/// boxes each. faster_rcnn_landscape: the same with images of one orientation and 10 boxes each.
/// faster_rcnn_from_scratch: images like those, norms and everything else trained, as torchvision trains without pretrained weights.
std::vector<ModelFactory> faster_rcnn_factories();

}  // namespace maxbatch::models
