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

/// Options of RetinaNet, with torchvision's defaults.
struct RetinaNetOptions {
  std::int64_t classes = 91;         ///< labels are 0 to 90
  NormKind norm = NormKind::frozen;  ///< this and the next two: see FasterRcnnOptions
  std::int64_t trained_parts = 3;
  double norm_epsilon = 1e-5;
  std::vector<std::int64_t> depths = {3, 4, 6, 3};
  std::int64_t width = 64;

  std::int64_t shorter_side = 800;  ///< images are resized so that no side is longer than it may be
  std::int64_t longer_side = 1333;
  std::array<double, 3> image_mean = {0.485, 0.456, 0.406};
  std::array<double, 3> image_deviation = {0.229, 0.224, 0.225};

  double match_threshold = 0.5;     ///< an anchor that overlaps as much with an object is an example of it
  double no_match_threshold = 0.4;  ///< and one that overlaps less an example of nothing
  double score_threshold = 0.05;
  std::int64_t candidates_of_level = 1000;  ///< before suppression
  double nms_threshold = 0.5;
  std::int64_t detections_per_image = 300;
};

/// The two parts of the loss, each a number.
struct RetinaNetLosses {
  at::Tensor classification;
  at::Tensor box_regression;

  at::Tensor total() const { return classification + box_regression; }
};

/// RetinaNet (arXiv:1708.02002) with a ResNet-FPN backbone, equal to torchvision 0.26's `retinanet_resnet50_fpn` for the same
/// weights, whose names its parameters and buffers have. Weights start as torchvision's do where it starts without trained
/// ones. Like FasterRcnn, a training step's memory does not depend on what is in the images, and nothing in it waits for the
/// device.
class RetinaNet : public TorchvisionModule {
 public:
  /// Builds the weights on `device`.  Throws: InvalidArgument for options that make no model.
  explicit RetinaNet(RetinaNetOptions const& options = {}, c10::Device device = c10::Device(c10::kCPU));

  /// The losses of a training step. images: each [3, H, W] in [0, 1], of any sizes, on the model's device. Labels of targets
  /// may be 0 here. The module is in training mode.  Synchronises: no.  Throws: InvalidArgument for images or targets
  /// that are none.
  RetinaNetLosses losses(std::vector<at::Tensor> const& images, std::vector<DetectionTarget> const& targets);

  /// What is in the images. The module is in evaluation mode; no gradients are recorded.  Synchronises: once a batch.
  std::vector<Detections> detect(std::vector<at::Tensor> const& images);

  /// As FasterRcnn::resize_images_to.
  void resize_images_to(std::int64_t shorter_side, std::int64_t longer_side);

  RetinaNetOptions const& options() const { return options_; }

 private:
  struct Parts;

  RetinaNetOptions options_;
  std::shared_ptr<Parts> parts_;
};

/// Number of parameters of a model with these options.  Throws: InvalidArgument for options that make no model.
std::int64_t parameter_count(RetinaNetOptions const& options);

/// A factory that trains such a model, or detects, on random images drawn inside the step. The image size of a recipe or trial
/// is that of the images, and what they are resized to: nothing.
ModelFactory retinanet_factory(std::string name, std::string description, RetinaNetOptions const& options,
                               DetectionImages const& images);

/// retinanet: frozen norms and three trained parts of the backbone, as torchvision fine-tunes; images of both orientations with 100
/// boxes each. retinanet_landscape: the same with images of one orientation and 10 boxes each.
/// retinanet_from_scratch: images like those, norms and everything else trained, as torchvision trains without pretrained weights.
std::vector<ModelFactory> retinanet_factories();

}  // namespace maxbatch::models
