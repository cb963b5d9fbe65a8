/// Training steps of our detectors: what they take of the allocator and of time, one JSON object on standard output.
/// detector_step.py is the same over torchvision, and swin_compare.py --script detector_step.py runs both.
///
///   detector_step --model faster_rcnn|retinanet --batch 2 [--start frozen|scratch] [--images lying|both] [--boxes 10]
///                 [--precision fp32|bf16] [--steps 3] [--cap-mib N] [--inference]
#include "measured_steps.hpp"
#include <maxbatch/models/faster_rcnn.hpp>
#include <maxbatch/models/retinanet.hpp>

#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace {

namespace models = maxbatch::models;
using measured_steps::Arguments;

/// A detector of either kind.
struct Model {
  std::shared_ptr<torch::nn::Module> module;
  std::function<at::Tensor(std::vector<at::Tensor> const&, std::vector<models::DetectionTarget> const&)> loss;
  std::function<void(std::vector<at::Tensor> const&)> detect;
};

template <typename Network, typename Options>
Model make(Arguments const& arguments, torch::Device device) {
  Options options;
  if (arguments["--start"] == "scratch") {
    options.norm = models::NormKind::batch;
    options.trained_parts = 5;
  }
  auto const network = std::make_shared<Network>(options, device);
  torch::NoGradGuard const no_gradients;
  // Branches that add little: without trained weights, features would grow from block to block.
  for (auto& item : network->named_buffers()) {
    if (item.key().find("bn3.weight") != std::string::npos) { item.value().fill_(0.25); }
  }
  Model model;
  model.module = network;
  model.loss = [network](auto const& images, auto const& targets) { return network->losses(images, targets).total(); };
  model.detect = [network](auto const& images) { network->detect(images); };
  return model;
}

void run(Arguments const& arguments) {
  measured_steps::prepare(arguments);
  torch::Device const device(torch::kCUDA, 0);
  auto const start_of_build = measured_steps::Clock::now();
  auto const model = arguments["--model"] == "retinanet"
                         ? make<models::RetinaNet, models::RetinaNetOptions>(arguments, device)
                         : make<models::FasterRcnn, models::FasterRcnnOptions>(arguments, device);
  std::vector<at::Tensor> trained;
  for (auto const& parameter : model.module->parameters()) {
    if (parameter.requires_grad()) { trained.push_back(parameter); }
  }
  // So small that weights stay what they are: results of random ones would soon be no numbers.
  torch::optim::SGD optimizer(trained, torch::optim::SGDOptions(1e-7).momentum(0.9));
  model.module->train(!arguments.infers());

  auto const batch = arguments.number("--batch");
  auto const boxes = arguments.number("--boxes");
  std::vector<at::Tensor> images;
  std::vector<models::DetectionTarget> targets;
  measured_steps::Measured measured;
  measured.build_seconds = measured_steps::seconds_since(start_of_build);
  measured.optimizer = &optimizer;
  measured.draw = [&] {
    images.clear();
    targets.clear();
    for (std::int64_t i = 0; i < batch; ++i) {
      auto const stands = arguments["--images"] == "both" && i % 2 == 1;
      images.push_back(torch::rand({3, stands ? 1333 : 800, stands ? 800 : 1333}, device));
      auto const corners =
          torch::rand({boxes, 2}) * (stands ? torch::tensor({500.0F, 1000.0F}) : torch::tensor({1000.0F, 500.0F}));
      targets.push_back({torch::cat({corners, corners + torch::rand({boxes, 2}) * 250 + 20}, 1),
                         torch::randint(1, 91, {boxes}, torch::kInt64)});
    }
  };
  measured.infer = [&] { model.detect(images); };
  measured.loss = [&] { return model.loss(images, targets); };
  measured_steps::run(arguments, measured);
}

}  // namespace

int main(int argc, char** argv) {
  Arguments arguments({{"--model", "faster_rcnn"}, {"--start", "frozen"}, {"--images", "lying"}, {"--boxes", "10"}});
  if (!arguments.read(argc, argv)) {
    std::cerr << "usage: detector_step [--model faster_rcnn|retinanet] [--batch N] [--start frozen|scratch]\n"
                 "                     [--images lying|both] [--boxes N] [--precision fp32|bf16] [--steps N]\n"
                 "                     [--cap-mib N] [--inference]\n";
    return 2;
  }
  run(arguments);
  return 0;
}
