/// Training steps of our detectors: what they take of the allocator and of time, one JSON object on standard output.
/// detector_step.py is the same over torchvision, and swin_compare.py --script detector_step.py runs both.
///
///   detector_step --model faster_rcnn|retinanet --batch 2 [--start frozen|scratch] [--images lying|both] [--boxes 10]
///                 [--precision fp32|bf16] [--steps 3] [--cap-mib N] [--inference]
#include <maxbatch/models/faster_rcnn.hpp>
#include <maxbatch/models/retinanet.hpp>

#include <ATen/Context.h>
#include <ATen/autocast_mode.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAFunctions.h>
#include <torch/torch.h>

#include <chrono>
#include <functional>
#include <iostream>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace {

namespace models = maxbatch::models;

struct Arguments {
  std::map<std::string, std::string> values = {{"--model", "faster_rcnn"}, {"--batch", "2"},   {"--start", "frozen"},
                                               {"--images", "lying"},      {"--boxes", "10"},  {"--precision", "fp32"},
                                               {"--steps", "3"},           {"--cap-mib", "0"}, {"--inference", ""}};
  std::string const& operator[](std::string const& name) const { return values.at(name); }
  std::int64_t number(std::string const& name) const { return std::stoll(values.at(name)); }
};

std::optional<Arguments> read(int argc, char** argv) {
  Arguments arguments;
  for (int i = 1; i < argc; ++i) {
    std::string const name = argv[i];
    if (arguments.values.count(name) == 0) { return std::nullopt; }
    if (name == "--inference") {
      arguments.values[name] = "yes";
    } else if (++i < argc) {
      arguments.values[name] = argv[i];
    } else {
      return std::nullopt;
    }
  }
  return arguments;
}

/// As `with torch.autocast("cuda", torch.bfloat16)` in Python.
class Autocast {
 public:
  explicit Autocast(bool on) : on_(on) {
    if (!on_) { return; }
    at::autocast::increment_nesting();
    at::autocast::set_autocast_dtype(at::kCUDA, at::kBFloat16);
    at::autocast::set_autocast_enabled(at::kCUDA, true);
  }
  ~Autocast() {
    if (!on_) { return; }
    if (at::autocast::decrement_nesting() == 0) { at::autocast::clear_cache(); }
    at::autocast::set_autocast_enabled(at::kCUDA, false);
  }
  Autocast(Autocast const&) = delete;
  Autocast& operator=(Autocast const&) = delete;

 private:
  bool on_;
};

using Clock = std::chrono::steady_clock;
double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

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

int run(Arguments const& arguments) {
  at::globalContext().setAllowTF32CuBLAS(false);
  at::globalContext().setAllowTF32CuDNN(false);
  torch::Device const device(torch::kCUDA, 0);
  torch::ones({1}, device);
  if (auto const cap = arguments.number("--cap-mib"); cap > 0) {
    std::size_t free_bytes = 0;
    std::size_t total_bytes = 0;
    std::tie(free_bytes, total_bytes) = c10::cuda::CUDACachingAllocator::get()->getMemoryInfo(0);
    c10::cuda::CUDACachingAllocator::setMemoryFraction(
        (static_cast<double>(cap) * 1048576 + 0.5) / static_cast<double>(total_bytes), 0);
  }
  auto const start_of_build = Clock::now();
  auto const model = arguments["--model"] == "retinanet"
                         ? make<models::RetinaNet, models::RetinaNetOptions>(arguments, device)
                         : make<models::FasterRcnn, models::FasterRcnnOptions>(arguments, device);
  std::vector<at::Tensor> trained;
  for (auto const& parameter : model.module->parameters()) {
    if (parameter.requires_grad()) { trained.push_back(parameter); }
  }
  // So small that weights stay what they are: results of random ones would soon be no numbers.
  torch::optim::SGD optimizer(trained, torch::optim::SGDOptions(1e-7).momentum(0.9));
  auto const build_seconds = seconds_since(start_of_build);
  auto const batch = arguments.number("--batch");
  auto const boxes = arguments.number("--boxes");
  auto const is_bf16 = arguments["--precision"] == "bf16";
  auto const infers = !arguments["--inference"].empty();
  model.module->train(!infers);

  auto const step = [&] {
    std::vector<at::Tensor> images;
    std::vector<models::DetectionTarget> targets;
    for (std::int64_t i = 0; i < batch; ++i) {
      auto const stands = arguments["--images"] == "both" && i % 2 == 1;
      images.push_back(torch::rand({3, stands ? 1333 : 800, stands ? 800 : 1333}, device));
      auto const corners =
          torch::rand({boxes, 2}) * (stands ? torch::tensor({500.0F, 1000.0F}) : torch::tensor({1000.0F, 500.0F}));
      targets.push_back({torch::cat({corners, corners + torch::rand({boxes, 2}) * 250 + 20}, 1),
                         torch::randint(1, 91, {boxes}, torch::kInt64)});
    }
    if (infers) {
      Autocast const autocast(is_bf16);
      model.detect(images);
      return;
    }
    auto const loss = [&] {
      Autocast const autocast(is_bf16);
      return model.loss(images, targets);
    }();
    loss.backward();
    optimizer.step();
    optimizer.zero_grad(/*set_to_none=*/true);
  };

  auto fits = true;
  std::vector<double> seconds;
  std::string reason;
  try {
    for (std::int64_t i = 0; i < arguments.number("--steps"); ++i) {
      auto const start = Clock::now();
      step();
      torch::cuda::synchronize();
      seconds.push_back(seconds_since(start));
    }
  } catch (c10::OutOfMemoryError const& error) {
    fits = false;
    reason = error.what_without_backtrace();
    reason = reason.substr(0, reason.find('.'));
  }
  auto const stats = c10::cuda::CUDACachingAllocator::getDeviceStats(0);
  std::cout << "{\"side\": \"cpp\", \"fits\": " << (fits ? "true" : "false") << ", \"batch\": " << batch
            << ", \"allocated_peak\": " << stats.allocated_bytes[0].peak
            << ", \"reserved_peak\": " << stats.reserved_bytes[0].peak << ", \"build_seconds\": " << build_seconds
            << ", \"seconds\": [";
  for (std::size_t i = 0; i < seconds.size(); ++i) { std::cout << (i == 0 ? "" : ", ") << seconds[i]; }
  std::cout << "], \"reason\": \"" << reason << "\"}" << std::endl;
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  auto const arguments = read(argc, argv);
  if (!arguments) {
    std::cerr << "usage: detector_step [--model faster_rcnn|retinanet] [--batch N] [--start frozen|scratch]\n"
                 "                     [--images lying|both] [--boxes N] [--precision fp32|bf16] [--steps N]\n"
                 "                     [--cap-mib N] [--inference]\n";
    return 2;
  }
  return run(*arguments);
}
