/// Training steps of our Swin Transformers: what they take of the allocator and of time, one JSON object on standard output.
/// swin_step.py is the same over timm, and swin_compare.py runs both.
///
///   swin_step --model swin_l --batch 8 [--attention written_out|fused] [--precision fp32|bf16] [--steps 3] [--cap-mib N]
///             [--drop-path 0.1] [--weights FILE] [--inference]
#include <maxbatch/models/swin_transformer.hpp>

#include <ATen/Context.h>
#include <ATen/autocast_mode.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAFunctions.h>
#include <torch/torch.h>

#include <chrono>
#include <cstdlib>
#include <iostream>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace {

struct Arguments {
  std::map<std::string, std::string> values = {
      {"--model", "swin_l"},   {"--batch", "8"},    {"--attention", "written_out"},
      {"--precision", "fp32"}, {"--steps", "3"},    {"--cap-mib", "0"},
      {"--drop-path", "0.1"},  {"--inference", ""}, {"--weights", ""}};
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

maxbatch::models::SwinOptions options_of(Arguments const& arguments) {
  using namespace maxbatch::models;
  std::map<std::string, SwinOptions> const known = {{"swin_t", swin_tiny_options()},
                                                    {"swin_s", swin_small_options()},
                                                    {"swin_b", swin_base_options()},
                                                    {"swin_l", swin_large_options()},
                                                    {"swin_b_384", for_384(swin_base_options())},
                                                    {"swin_l_384", for_384(swin_large_options())}};
  auto options = known.at(arguments["--model"]);
  options.drop_path_rate = std::stod(arguments["--drop-path"]);
  options.attention = arguments["--attention"] == "fused" ? Attention::fused : Attention::written_out;
  return options;
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

int run(Arguments const& arguments) {
  at::globalContext().setAllowTF32CuBLAS(false);
  at::globalContext().setAllowTF32CuDNN(false);
  torch::Device const device(torch::kCUDA, 0);
  torch::ones({1}, device);
  if (auto const cap = arguments.number("--cap-mib"); cap > 0) {
    std::size_t free_bytes = 0;
    std::size_t total_bytes = 0;
    c10::cuda::device_count_ensure_non_zero();
    std::tie(free_bytes, total_bytes) = c10::cuda::CUDACachingAllocator::get()->getMemoryInfo(0);
    c10::cuda::CUDACachingAllocator::setMemoryFraction(
        (static_cast<double>(cap) * 1048576 + 0.5) / static_cast<double>(total_bytes), 0);
  }

  auto const options = options_of(arguments);
  auto const start_of_build = Clock::now();
  auto const model = std::make_shared<maxbatch::models::SwinTransformer>(options, device);
  if (!arguments["--weights"].empty()) { model->load_weights(arguments["--weights"]); }
  torch::optim::AdamW optimizer(model->parameters(), torch::optim::AdamWOptions(1e-4).weight_decay(5e-2));
  auto const build_seconds = seconds_since(start_of_build);
  auto const batch = arguments.number("--batch");
  auto const is_bf16 = arguments["--precision"] == "bf16";
  auto const infers = !arguments["--inference"].empty();
  model->train(!infers);

  auto const images = [&] {
    return torch::randn({batch, 3, options.image_size.height, options.image_size.width}, device);
  };
  auto const step = [&] {
    auto const x = images();
    if (infers) {
      torch::NoGradGuard const no_gradients;
      Autocast const autocast(is_bf16);
      model->forward(x);
      return;
    }
    auto const y = torch::randint(1000, {batch}, torch::device(device).dtype(torch::kInt64));
    auto const loss = [&] {
      Autocast const autocast(is_bf16);
      return torch::nn::functional::cross_entropy(model->forward(x), y);
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
    std::cerr << "usage: swin_step [--model NAME] [--batch N] [--attention written_out|fused] [--precision fp32|bf16]\n"
                 "                 [--steps N] [--cap-mib N] [--drop-path RATE] [--weights FILE] [--inference]\n";
    return 2;
  }
  return run(*arguments);
}
