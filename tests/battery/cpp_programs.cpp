// Small C++ training programs for the battery: battery_programs NAME PRECISION; without arguments their names.
#include <ATen/autocast_mode.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <torch/torch.h>

#include <functional>
#include <iostream>
#include <map>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

namespace nn = torch::nn;
namespace F = torch::nn::functional;
using torch::Tensor;

namespace {

auto const kOnCard = torch::TensorOptions(torch::kCUDA);

/// Autocast, and the scale of a loss, as a program in C++ does them by hand.
struct Precision {
  explicit Precision(std::string const& name)
      : is_16_bit(name != "fp32"), scales(name == "fp16"), type(scales ? torch::kHalf : torch::kBFloat16) {
    if (name != "fp32" && name != "bf16" && name != "fp16") { throw std::invalid_argument("no precision " + name); }
  }
  bool is_16_bit, scales;
  at::ScalarType type;
};

class AutocastGuard {
 public:
  explicit AutocastGuard(Precision const& precision) : on_(precision.is_16_bit) {
    if (!on_) { return; }
    at::autocast::set_autocast_enabled(at::kCUDA, true);
    at::autocast::set_autocast_dtype(at::kCUDA, precision.type);
    at::autocast::increment_nesting();
  }
  ~AutocastGuard() {
    if (!on_) { return; }
    if (at::autocast::decrement_nesting() == 0) { at::autocast::clear_cache(); }
    at::autocast::set_autocast_enabled(at::kCUDA, false);
  }
  AutocastGuard(AutocastGuard const&) = delete;
  AutocastGuard& operator=(AutocastGuard const&) = delete;

 private:
  bool on_;
};

void train(std::vector<Tensor> const& parameters, torch::optim::Optimizer& optimizer, Precision const& precision,
           std::function<Tensor()> const& loss_of) {
  auto const scale = precision.scales ? 65536.0 : 1.0;
  for (int step = 0; step < 2; ++step) {
    optimizer.zero_grad();
    Tensor loss;
    {
      AutocastGuard const autocast(precision);
      loss = loss_of();
    }
    (loss.to(torch::kFloat) * scale).backward();
    for (auto const& parameter : parameters) {
      if (parameter.grad().defined()) { parameter.mutable_grad().div_(scale); }
    }
    nn::utils::clip_grad_norm_(parameters, 1.0);
    optimizer.step([&] { return loss; });
  }
}

void train(nn::Module& model, Precision const& precision, std::function<Tensor()> const& loss_of) {
  model.to(torch::kCUDA);
  model.train();
  torch::optim::AdamW optimizer(model.parameters(), torch::optim::AdamWOptions(1e-4));
  train(model.parameters(), optimizer, precision, loss_of);
}

nn::Sequential perceptron() {
  return nn::Sequential(nn::Linear(128, 128), nn::GELU(), nn::Dropout(0.1), nn::Linear(128, 10));
}

Tensor batch(std::vector<std::int64_t> const& shape) { return torch::randn(shape, kOnCard); }
Tensor classes(std::int64_t count) { return torch::randint(10, {count}, kOnCard.dtype(torch::kLong)); }

void modules(Precision const& precision) {
  nn::Sequential net(
      nn::Conv2d(nn::Conv2dOptions(3, 16, 3).padding(1)), nn::BatchNorm2d(16), nn::SiLU(), nn::MaxPool2d(2),
      nn::Conv2d(nn::Conv2dOptions(16, 16, 3).groups(4)), nn::GroupNorm(nn::GroupNormOptions(4, 16)), nn::PReLU(),
      nn::Upsample(nn::UpsampleOptions().scale_factor(std::vector<double>{2.0, 2.0})),
      nn::ConvTranspose2d(nn::ConvTranspose2dOptions(16, 8, 2).stride(2)), nn::InstanceNorm2d(8),
      nn::AdaptiveAvgPool2d(4), nn::Flatten(), nn::LayerNorm(nn::LayerNormOptions({128})), nn::Linear(128, 10));
  train(*net, precision, [&] { return F::cross_entropy(net->forward(batch({4, 3, 32, 32})), classes(4)); });
}

void recurrent(Precision const& precision) {
  struct Net : nn::Module {
    Net() {
      register_module("lstm", lstm);
      register_module("gru", gru);
      register_module("head", head);
    }
    Tensor forward(Tensor const& x) {
      auto const hidden = std::get<0>(lstm->forward(x));
      return head->forward(std::get<0>(gru->forward(hidden)));
    }
    nn::LSTM lstm{nn::LSTMOptions(32, 64).num_layers(2).dropout(0.1).bidirectional(true)};
    nn::GRU gru{nn::GRUOptions(128, 32)};
    nn::Linear head{32, 10};
  } net;
  train(net, precision, [&] { return net.forward(batch({16, 4, 32})).to(torch::kFloat).square().mean(); });
}

void attention(Precision const& precision) {
  nn::TransformerEncoder encoder(
      nn::TransformerEncoderLayer(nn::TransformerEncoderLayerOptions(64, 4).dim_feedforward(128)), 2);
  train(*encoder, precision, [&] { return encoder->forward(batch({16, 4, 64})).to(torch::kFloat).square().mean(); });
}

void embeddings(Precision const& precision) {
  struct Net : nn::Module {
    Net() {
      register_module("words", words);
      register_module("bag", bag);
      register_module("head", head);
    }
    nn::Embedding words{1000, 64};
    nn::EmbeddingBag bag{1000, 64};
    nn::Linear head{64, 10};
  } net;
  train(net, precision, [&] {
    auto const ids = torch::randint(1000, {8, 16}, kOnCard.dtype(torch::kLong));
    auto const summed = net.words->forward(ids).mean(1) + net.bag->forward(ids);
    return F::cross_entropy(net.head->forward(summed), classes(8));
  });
}

void losses(Precision const& precision) {
  auto net = perceptron();
  train(*net, precision, [&] {
    auto const x = net->forward(batch({8, 128})).to(torch::kFloat);
    auto const likely = torch::rand_like(x);
    auto loss = nn::CrossEntropyLoss()(x, classes(8)) + nn::BCEWithLogitsLoss()(x, likely) + nn::MSELoss()(x, likely);
    loss = loss + nn::SmoothL1Loss()(x, likely) + nn::HuberLoss()(x, likely) + nn::L1Loss()(x, likely);
    loss = loss + nn::KLDivLoss()(x.log_softmax(1), likely.softmax(1)) + nn::MultiMarginLoss()(x, classes(8));
    loss = loss + nn::CosineEmbeddingLoss()(x, likely, torch::ones({8}, kOnCard)) + nn::PoissonNLLLoss()(x, likely);
    return loss + nn::TripletMarginLoss()(x, likely, likely.flip(0)) + nn::SoftMarginLoss()(x, likely.sign());
  });
}

void ctc(Precision const& precision) {
  nn::Linear net(16, 20);
  train(*net, precision, [&] {
    auto const scores = net->forward(batch({32, 4, 16})).to(torch::kFloat).log_softmax(2);
    auto const lengths = [](int length) { return torch::full({4}, length, kOnCard.dtype(torch::kLong)); };
    return F::ctc_loss(scores, torch::randint(1, 20, {32}, kOnCard.dtype(torch::kLong)), lengths(32), lengths(8));
  });
}

template <typename Optimizer, typename Options>
void one_optimizer(Precision const& precision, Options const& options) {
  auto net = perceptron();
  net->to(torch::kCUDA);
  Optimizer optimizer(net->parameters(), options);
  train(net->parameters(), optimizer, precision, [&] {
    return F::cross_entropy(net->forward(batch({8, 128})), classes(8));
  });
}

void optimizers(Precision const& precision) {
  one_optimizer<torch::optim::SGD>(precision, torch::optim::SGDOptions(0.1).momentum(0.9).nesterov(true));
  one_optimizer<torch::optim::Adam>(precision, torch::optim::AdamOptions(1e-3).amsgrad(true));
  one_optimizer<torch::optim::AdamW>(precision, torch::optim::AdamWOptions(1e-3));
  one_optimizer<torch::optim::RMSprop>(precision, torch::optim::RMSpropOptions(1e-3).centered(true));
  one_optimizer<torch::optim::Adagrad>(precision, torch::optim::AdagradOptions(1e-3));
}

void serialisation(Precision const& precision) {
  auto net = perceptron();
  net->to(torch::kCUDA);
  torch::optim::AdamW optimizer(net->parameters());
  auto const loss = [&] { return F::cross_entropy(net->forward(batch({8, 128})), classes(8)); };
  train(net->parameters(), optimizer, precision, loss);
  std::stringstream model_file, optimizer_file;
  torch::save(net, model_file);
  torch::save(optimizer, optimizer_file);
  auto again = perceptron();
  torch::load(again, model_file, torch::kCUDA);
  torch::optim::AdamW optimizer_again(again->parameters());
  torch::load(optimizer_again, optimizer_file, torch::kCUDA);
  train(again->parameters(), optimizer_again, precision, [&] {
    return F::cross_entropy(again->forward(batch({8, 128})), classes(8));
  });
}

void linear_algebra(Precision const& precision) {
  nn::Linear net(32, 32);
  train(*net, precision, [&] {
    auto const y = net->forward(batch({4, 32, 32})).to(torch::kFloat);
    auto const symmetric = torch::matmul(y, y.mT()) + torch::eye(32, kOnCard);
    auto const solved =
        torch::linalg_solve(symmetric, y) + torch::linalg_inv(symmetric) + torch::linalg_cholesky(symmetric);
    return (solved + std::get<0>(torch::linalg_qr(symmetric)) + torch::fft_fft(y).abs()).square().mean();
  });
}

void data_loader(Precision const& precision) {
  auto const inputs = torch::randn({32, 128});
  auto const targets = torch::randint(10, {32}, torch::kLong);
  auto loader = torch::data::make_data_loader(
      torch::data::datasets::TensorDataset(inputs).map(torch::data::transforms::Stack<torch::data::TensorExample>()),
      torch::data::DataLoaderOptions().batch_size(8).workers(2));
  auto net = perceptron();
  auto next = loader->begin();
  train(*net, precision, [&] {
    auto const images = next->data.pin_memory().to(torch::kCUDA, /*non_blocking=*/true);
    ++next;
    return F::cross_entropy(net->forward(images), targets.slice(0, 0, 8).to(torch::kCUDA));
  });
}

using Program = std::function<void(Precision const&)>;

std::map<std::string, Program> const& programs() {
  static std::map<std::string, Program> const all{{"cpp_attention", attention},
                                                  {"cpp_ctc", ctc},
                                                  {"cpp_data_loader", data_loader},
                                                  {"cpp_embeddings", embeddings},
                                                  {"cpp_linear_algebra", linear_algebra},
                                                  {"cpp_losses", losses},
                                                  {"cpp_modules", modules},
                                                  {"cpp_optimizers", optimizers},
                                                  {"cpp_recurrent", recurrent},
                                                  {"cpp_serialisation", serialisation}};
  return all;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    for (auto const& [name, program] : programs()) { std::cout << name << '\n'; }
    return 0;
  }
  try {
    programs().at(argv[1])(Precision(argv[2]));
    torch::cuda::synchronize();
  } catch (std::exception const& error) {
    std::cerr << std::string(error.what()).substr(0, 400) << '\n';
    return 1;
  }
  auto const stats = c10::cuda::CUDACachingAllocator::getDeviceStats(0);
  std::cout << "peak allocated " << stats.allocated_bytes[0].peak << " bytes\n";
}
