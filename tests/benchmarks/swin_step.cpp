/// Training steps of our Swin Transformers: what they take of the allocator and of time, one JSON object on standard output.
/// swin_step.py is the same over timm, and swin_compare.py runs both.
///
///   swin_step --model swin_l --batch 8 [--attention written_out|fused] [--precision fp32|bf16] [--steps 3] [--cap-mib N]
///             [--drop-path 0.1] [--weights FILE] [--inference]
#include "measured_steps.hpp"
#include <maxbatch/models/swin_transformer.hpp>

#include <map>
#include <memory>
#include <string>

namespace {

using measured_steps::Arguments;

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

void run(Arguments const& arguments) {
  measured_steps::prepare(arguments);
  torch::Device const device(torch::kCUDA, 0);
  auto const options = options_of(arguments);
  auto const start_of_build = measured_steps::Clock::now();
  auto const model = std::make_shared<maxbatch::models::SwinTransformer>(options, device);
  if (!arguments["--weights"].empty()) { model->load_weights(arguments["--weights"]); }
  torch::optim::AdamW optimizer(model->parameters(), torch::optim::AdamWOptions(1e-4).weight_decay(5e-2));
  model->train(!arguments.infers());

  auto const batch = arguments.number("--batch");
  at::Tensor images;
  measured_steps::Measured measured;
  measured.build_seconds = measured_steps::seconds_since(start_of_build);
  measured.optimizer = &optimizer;
  measured.draw = [&] {
    images.reset();  // not two of them at once
    images = torch::randn({batch, 3, options.image_size.height, options.image_size.width}, device);
  };
  measured.infer = [&] { model->forward(images); };
  measured.loss = [&] {
    auto const labels = torch::randint(1000, {batch}, torch::device(device).dtype(torch::kInt64));
    return torch::nn::functional::cross_entropy(model->forward(images), labels);
  };
  measured_steps::run(arguments, measured);
}

}  // namespace

int main(int argc, char** argv) {
  Arguments arguments({{"--model", "swin_l"},
                       {"--batch", "8"},
                       {"--attention", "written_out"},
                       {"--drop-path", "0.1"},
                       {"--weights", ""}});
  if (!arguments.read(argc, argv)) {
    std::cerr << "usage: swin_step [--model NAME] [--batch N] [--attention written_out|fused] [--precision fp32|bf16]\n"
                 "                 [--steps N] [--cap-mib N] [--drop-path RATE] [--weights FILE] [--inference]\n";
    return 2;
  }
  run(arguments);
  return 0;
}
