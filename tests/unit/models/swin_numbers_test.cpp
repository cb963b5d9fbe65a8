// Our Swin Transformers against timm's: numbers kept in tests/data, and, where timm is installed, timm itself.
#include "models/autocast_guard.hpp"
#include "support/remove_folder.hpp"
#include <maxbatch/models/swin_transformer.hpp>

#include <torch/torch.h>

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include <unistd.h>

namespace maxbatch::test {
namespace {

using models::Attention;
using models::SwinOptions;
using models::SwinTransformer;

using Gradients = std::map<std::string, at::Tensor>;

struct Results {
  at::Tensor evaluated;  // logits; undefined where only training is compared
  at::Tensor loss;
  Gradients gradients;
};

Results train_once(SwinTransformer& model, at::Tensor const& images, at::Tensor const& labels, Precision precision) {
  Results results;
  model.zero_grad();
  model.train();
  {
    models::AutocastGuard const guard(precision, images.device());
    results.loss = torch::nn::functional::cross_entropy(model.forward(images), labels);
  }
  results.loss.backward();
  for (auto const& parameter : model.named_parameters()) {
    results.gradients.emplace(parameter.key(), parameter.value().grad().clone());
  }
  return results;
}

Results run(SwinTransformer& model, at::Tensor const& images, at::Tensor const& labels,
            Precision precision = Precision::fp32) {
  auto results = train_once(model, images, labels, precision);
  model.eval();
  at::NoGradGuard const no_gradients;
  models::AutocastGuard const guard(precision, images.device());
  results.evaluated = model.forward(images);
  return results;
}

/// Size of the difference, in sizes of the truth.
double error_of(at::Tensor const& ours, at::Tensor const& truth) {
  return ((ours.to(at::kDouble) - truth.to(at::kDouble)).norm() / truth.to(at::kDouble).norm()).item<double>();
}

// ---- kept numbers ----

/// by_formula of swin_reference.py.
at::Tensor by_formula(std::int64_t count, std::int64_t salt, double offset = 0) {
  auto const i = at::arange(count, at::kLong);
  auto const hashed = (i * 2654435761 + (salt * 40503 + 12345)).remainder(std::int64_t{1} << 32);
  return (hashed.div(256, "floor").to(at::kDouble) / (1 << 24) - 0.5) / 2 + offset;
}

SwinOptions options_of(std::string const& name) {
  SwinOptions options;
  options.classes = 10;
  options.drop_path_rate = 0;
  options.width = 16;
  options.depths = {2, 2};
  options.heads = {2, 4};
  if (name == "window7") {
    options.image_size = {56, 56};
  } else if (name == "window12") {
    options.image_size = {96, 96};
    options.window = 12;
  } else if (name == "padded") {
    options.image_size = {60, 52};
    options.heads = {1, 2};
  } else {
    EXPECT_EQ(name, "small");
    options.image_size = {20, 36};
    options.width = 8;
    options.depths = {1, 3, 2};
    options.heads = {1, 1, 2};
  }
  return options;
}

struct KeptCase {
  std::string name;
  std::vector<std::vector<double>> logits;
  double loss = 0;
  std::map<std::string, std::pair<double, double>> gradients;  // norm; product with the formula's numbers
};

std::vector<KeptCase> kept_cases() {
  std::ifstream file(MAXBATCH_TEST_DATA_DIR "/swin_reference.txt");
  std::vector<KeptCase> cases;
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string what;
    words >> what;
    if (what == "case") {
      words >> cases.emplace_back().name;
    } else if (what == "logits") {
      auto& row = cases.back().logits.emplace_back();
      for (double value = 0; words >> value;) { row.push_back(value); }
    } else if (what == "loss") {
      words >> cases.back().loss;
    } else if (what == "gradient") {
      std::string name;
      words >> name;
      auto& [norm, product] = cases.back().gradients[name];
      words >> norm >> product;
    }
  }
  return cases;
}

class KeptNumbers : public testing::TestWithParam<Attention> {
 protected:
  void SetUp() override { torch::set_num_threads(1); }  // small tensors
};

TEST_P(KeptNumbers, OfTimmAreOurs) {
  auto const cases = kept_cases();
  ASSERT_EQ(cases.size(), 4U);
  for (auto const& kept : cases) {
    SCOPED_TRACE(kept.name);
    auto options = options_of(kept.name);
    options.attention = GetParam();
    SwinTransformer model(options);
    model.to(at::kDouble);  // rounding of float would hide small mistakes
    {
      at::NoGradGuard const no_gradients;
      std::map<std::string, at::Tensor> by_name;
      for (auto const& item : model.named_parameters()) { by_name.emplace(item.key(), item.value()); }
      std::int64_t salt = 0;
      for (auto& [name, parameter] : by_name) {
        auto const is_scale = name.find("norm") != std::string::npos && name.rfind("weight") == name.size() - 6;
        parameter.copy_(by_formula(parameter.numel(), salt++, is_scale ? 1.0 : 0.0).view(parameter.sizes()));
      }
    }
    auto const batch = static_cast<std::int64_t>(kept.logits.size());
    std::vector<std::int64_t> const shape{batch, 3, options.image_size.height, options.image_size.width};
    auto const images = 8 * by_formula(c10::multiply_integers(shape), 1000).view(shape);
    auto const found = run(model, images, at::arange(batch, at::kLong).remainder(options.classes));

    // 15 digits are kept; what differs beyond is the order of sums.
    for (std::int64_t image = 0; image < batch; ++image) {
      auto const& row = kept.logits[static_cast<std::size_t>(image)];
      EXPECT_LT(error_of(found.evaluated[image], at::tensor(row, at::kDouble)), 1e-12);
    }
    EXPECT_NEAR(found.loss.item<double>(), kept.loss, 1e-12);
    ASSERT_EQ(found.gradients.size(), kept.gradients.size());
    for (auto const& [name, gradient] : found.gradients) {
      SCOPED_TRACE(name);
      ASSERT_EQ(kept.gradients.count(name), 1U);
      auto const [norm, product] = kept.gradients.at(name);
      EXPECT_NEAR(gradient.norm().item<double>(), norm, 1e-10 * norm);
      auto const ours = (gradient.flatten() * by_formula(gradient.numel(), 2000)).sum().item<double>();
      EXPECT_NEAR(ours, product, 1e-10 * norm);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Swin, KeptNumbers, testing::Values(Attention::written_out, Attention::fused),
                         [](auto const& kind) { return kind.param == Attention::fused ? "Fused" : "WrittenOut"; });

// ---- timm itself ----

c10::impl::GenericDict read_dict(std::string const& path) {
  std::ifstream file(path, std::ios::binary);
  std::vector<char> const bytes((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  return torch::pickle_load(bytes).toGenericDict();
}

at::Tensor tensor_at(c10::impl::GenericDict const& dict, char const* key) { return dict.at(key).toTensor(); }

Results results_at(c10::impl::GenericDict const& dict, char const* key) {
  auto const found = dict.at(key).toGenericDict();
  Results results;
  if (found.contains("evaluated")) { results.evaluated = tensor_at(found, "evaluated"); }
  results.loss = tensor_at(found, "loss");
  for (auto const& item : found.at("gradients").toGenericDict()) {
    results.gradients.emplace(item.key().toStringRef(), item.value().toTensor());
  }
  return results;
}

std::vector<std::int64_t> numbers_at(c10::impl::GenericDict const& dict, char const* key) {
  auto const tensor = tensor_at(dict, key);
  return {tensor.data_ptr<std::int64_t>(), tensor.data_ptr<std::int64_t>() + tensor.numel()};
}

SwinOptions options_at(c10::impl::GenericDict const& dict) {
  auto const found = dict.at("options").toGenericDict();
  SwinOptions options;
  auto const image = numbers_at(found, "image");
  options.image_size = {image[0], image[1]};
  options.window = numbers_at(found, "window")[0];
  options.width = numbers_at(found, "width")[0];
  options.classes = numbers_at(found, "classes")[0];
  options.depths = numbers_at(found, "depths");
  options.heads = numbers_at(found, "heads");
  options.drop_path_rate = 0;
  return options;
}

/// Checks every tensor's error against a bound that may depend on timm's own error there. Returns the geometric mean of
/// the gradients' errors, in errors of timm's.
template <typename Bound>
double expect_close(Results const& ours, Results const& truth, Results const& timm, Bound const& bound) {
  auto const check = [&](std::string const& name, at::Tensor const& mine, at::Tensor const& true_one,
                         at::Tensor const& theirs) {
    auto const error = error_of(mine, true_one);
    auto const of_timm = error_of(theirs, true_one);
    EXPECT_LT(error, bound(of_timm)) << name << ": timm's own error is " << of_timm;
    return std::log(error / of_timm);
  };
  check("logits", ours.evaluated, truth.evaluated, timm.evaluated);
  check("loss", ours.loss, truth.loss, timm.loss);
  EXPECT_EQ(ours.gradients.size(), truth.gradients.size());
  double sum = 0;
  for (auto const& [name, gradient] : ours.gradients) {
    if (truth.gradients.count(name) == 0) {
      ADD_FAILURE() << "timm has no " << name;
      continue;
    }
    sum += check(name, gradient, truth.gradients.at(name), timm.gradients.at(name));
  }
  return std::exp(sum / static_cast<double>(ours.gradients.size()));
}

class AgainstTimm : public testing::Test {
 protected:
  static void SetUpTestSuite() {
#ifdef MAXBATCH_PYTHON
    folder() = testing::TempDir() + "swin_reference_" + std::to_string(::getpid());
    std::filesystem::create_directories(folder());
    auto const script = std::string(MAXBATCH_PYTHON) + " " MAXBATCH_SWIN_REFERENCE;
    if (std::system((script + " --can-run >/dev/null 2>&1").c_str()) != 0) {
      why_not() = "timm cannot be imported by " MAXBATCH_PYTHON "; where it is installed, name it in PYTHONPATH";
    } else if (std::system((script + " --cases " + folder()).c_str()) != 0) {
      why_not() = "failed";
    }
#else
    why_not() = "LibTorch came without a Python beside it";
#endif
  }
  static void TearDownTestSuite() {
    if (!folder().empty()) { remove_folder(folder()); }
  }

  void SetUp() override {
    torch::set_num_threads(1);  // as swin_reference.py
    if (why_not() == "failed") { FAIL() << "swin_reference.py failed"; }
    if (!why_not().empty()) { GTEST_SKIP() << why_not(); }
  }

  static std::string& folder() {
    static std::string path;
    return path;
  }
  static std::string& why_not() {
    static std::string text;
    return text;
  }
  static std::string weights_of(std::string const& name) { return folder() + "/" + name + ".weights.pt"; }
  static c10::impl::GenericDict results_of(std::string const& name) { return read_dict(folder() + "/" + name + ".pt"); }
};

TEST_F(AgainstTimm, SmallModelsGiveTheSameNumbers) {
  for (auto const* const name : {"window7", "window12", "padded", "small"}) {
    for (auto const attention : {Attention::written_out, Attention::fused}) {
      std::string const kind = attention == Attention::fused ? "fused" : "written_out";
      SCOPED_TRACE(std::string(name) + ", " + kind);
      auto const file = results_of(name);
      auto options = options_at(file);
      options.attention = attention;
      SwinTransformer model(options);
      model.load_weights(weights_of(name));
      auto const images = tensor_at(file, "images");
      auto const labels = tensor_at(file, "labels");
      auto const truth = results_at(file, "truth");  // timm in double

      // Both round; neither is right. A tensor of ours may be as far from the truth as timm's, times what luck and the
      // order of sums are worth for one tensor; over all tensors luck evens out, and ours must be no worse.
      {
        SCOPED_TRACE("fp32");
        auto const mean = expect_close(run(model, images, labels), truth, results_at(file, kind.c_str()),
                                       [](double of_timm) { return 4 * of_timm + 1e-6; });
        EXPECT_LT(mean, 1.5);
      }
      {
        SCOPED_TRACE("bf16");
        auto const mean =
            expect_close(run(model, images, labels, Precision::bf16), truth, results_at(file, (kind + " bf16").c_str()),
                         [](double of_timm) { return 3 * of_timm + 1e-2; });  // a rounding is 4e-3
        EXPECT_LT(mean, 1.25);
      }
      {
        SCOPED_TRACE("double");
        model.to(at::kDouble);
        expect_close(run(model, images.to(at::kDouble), labels), truth, truth, [](double) { return 1e-12; });
      }
    }
  }
}

TEST_F(AgainstTimm, AModelMeetsImagesOfAnotherSizeAsOneBuiltForThem) {
  for (auto const attention : {Attention::written_out, Attention::fused}) {
    auto const file = results_of("other_size");
    auto options = options_at(file);
    options.attention = attention;
    SwinTransformer model(options);
    model.load_weights(weights_of("other_size"));
    model.to(at::kDouble);
    auto const truth = results_at(file, "truth");
    expect_close(run(model, tensor_at(file, "images").to(at::kDouble), tensor_at(file, "labels")), truth, truth,
                 [](double) { return 1e-12; });
  }
}

TEST_F(AgainstTimm, DropPathDropsTheSameBranches) {
  auto const file = results_of("drop_path");
  auto options = options_at(file);
  options.drop_path_rate = 0.4;
  SwinTransformer model(options);
  model.load_weights(weights_of("drop_path"));
  model.to(at::kDouble);
  torch::manual_seed(11);
  auto const ours =
      train_once(model, tensor_at(file, "images").to(at::kDouble), tensor_at(file, "labels"), Precision::fp32);
  auto const truth = results_at(file, "truth");
  EXPECT_LT(error_of(ours.loss, truth.loss), 1e-7);  // keep probabilities are float in timm's layers and ours
  for (auto const& [name, gradient] : ours.gradients) {
    EXPECT_LT(error_of(gradient, truth.gradients.at(name)), 1e-6) << name;
  }
}

TEST_F(AgainstTimm, SwinTGivesTheSameNumbers) {
  auto const file = results_of("swin_t");
  for (auto const attention : {Attention::written_out, Attention::fused}) {
    auto options = models::swin_tiny_options();
    options.drop_path_rate = 0;
    options.attention = attention;
    SwinTransformer model(options);
    model.load_weights(weights_of("swin_t"));
    auto const ours = run(model, tensor_at(file, "images"), tensor_at(file, "labels"));
    auto const timm = results_at(file, "truth");  // in float, here: twelve blocks of roundings on either side
    expect_close(ours, timm, timm, [](double) { return 1e-4; });
  }
}

}  // namespace
}  // namespace maxbatch::test
