// Our Vision Transformer against timm's and our GPT-2 against transformers', where both are installed.
#include "support/remove_folder.hpp"
#include <maxbatch/models/gpt2.hpp>
#include <maxbatch/models/vision_transformer.hpp>
#include <maxbatch/search/errors.hpp>

#include <torch/torch.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include <unistd.h>

namespace maxbatch::test {
namespace {

using models::Attention;
using models::Gpt2;
using models::Gpt2Options;
using models::VisionTransformer;
using models::VisionTransformerOptions;
using testing::HasSubstr;
using testing::ThrowsMessage;

VisionTransformerOptions small_vit() {
  VisionTransformerOptions options;
  options.image_size = {48, 40};
  options.patch_size = 8;
  options.classes = 7;
  options.width = 24;
  options.depth = 3;
  options.heads = 3;
  return options;
}

Gpt2Options small_gpt2() {
  Gpt2Options options;
  options.vocabulary = 101;
  options.positions = 20;
  options.width = 24;
  options.layers = 3;
  options.heads = 3;
  return options;
}

double error_of(at::Tensor const& ours, at::Tensor const& theirs) {
  auto const truth = theirs.to(at::kDouble);
  return ((ours.to(at::kDouble) - truth).norm() / truth.norm()).item<double>();
}

struct Truth {
  at::Tensor inputs;
  at::Tensor labels;
  at::Tensor logits;
  at::Tensor loss;
  std::map<std::string, at::Tensor> gradients;
};

Truth read_truth(std::string const& path) {
  std::ifstream file(path, std::ios::binary);
  std::vector<char> const bytes((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  auto const dict = torch::pickle_load(bytes).toGenericDict();
  auto const found = dict.at("truth").toGenericDict();
  Truth truth{dict.at("inputs").toTensor(),
              dict.at("labels").toTensor(),
              found.at("logits").toTensor(),
              found.at("loss").toTensor(),
              {}};
  for (auto const& item : found.at("gradients").toGenericDict()) {
    truth.gradients.emplace(item.key().toStringRef(), item.value().toTensor());
  }
  return truth;
}

void expect_same(at::Tensor const& logits, at::Tensor const& loss, torch::nn::Module const& model, Truth const& truth,
                 double bound) {
  EXPECT_LT(error_of(logits, truth.logits), bound);
  EXPECT_LT(error_of(loss, truth.loss), bound);
  ASSERT_EQ(model.named_parameters().size(), truth.gradients.size());
  for (auto const& item : model.named_parameters()) {
    ASSERT_EQ(truth.gradients.count(item.key()), 1U) << item.key();
    EXPECT_LT(error_of(item.value().grad(), truth.gradients.at(item.key())), bound) << item.key();
  }
}

class Folder {
 public:
  Folder() : path_(testing::TempDir() + "language_vision_" + std::to_string(::getpid())) {
    std::filesystem::create_directories(path_);
  }
  ~Folder() { remove_folder(path_); }
  Folder(Folder const&) = delete;
  Folder& operator=(Folder const&) = delete;
  std::string file(std::string const& name) const { return path_ + "/" + name; }
  std::string const& path() const { return path_; }

 private:
  std::string path_;
};

/// Attention and checkpoints, each as it may be.
struct Variant {
  Attention attention;
  bool checkpoint;
};
std::vector<Variant> every_variant() {
  return {{Attention::written_out, false},
          {Attention::written_out, true},
          {Attention::fused, false},
          {Attention::fused, true}};
}
/// Of the large models, where each takes seconds.
std::vector<Variant> two_variants() { return {{Attention::written_out, false}, {Attention::fused, true}}; }

std::string text_of(std::string const& name, Variant const& variant) {
  return name + (variant.attention == Attention::fused ? ", fused" : ", written out") +
         (variant.checkpoint ? ", checkpointed" : "");
}

void expect_timms_vit(Folder const& folder, std::string const& name, VisionTransformerOptions options,
                      std::vector<Variant> const& variants, double bound) {
  auto const truth = read_truth(folder.file(name + ".pt"));
  for (auto const& variant : variants) {
    SCOPED_TRACE(text_of(name, variant));
    options.attention = variant.attention;
    options.checkpoint = variant.checkpoint;
    VisionTransformer model(options);
    model.load_weights(folder.file(name + ".weights.pt"));
    model.to(truth.inputs.scalar_type());
    auto const logits = model.forward(truth.inputs);
    auto const loss = torch::nn::functional::cross_entropy(logits, truth.labels);
    loss.backward();
    expect_same(logits, loss, model, truth, bound);
  }
}

void expect_gpt2_of_transformers(Folder const& folder, std::string const& name, Gpt2Options options,
                                 std::vector<Variant> const& variants, double bound) {
  auto const truth = read_truth(folder.file(name + ".pt"));
  for (auto const& variant : variants) {
    SCOPED_TRACE(text_of(name, variant));
    options.attention = variant.attention;
    options.checkpoint = variant.checkpoint;
    Gpt2 model(options);
    model.load_weights(folder.file(name + ".weights.pt"));
    model.to(truth.logits.scalar_type());
    model.eval();  // no dropout
    auto const loss = model.loss(truth.inputs);
    loss.backward();
    at::NoGradGuard const no_gradients;
    expect_same(model.forward(truth.inputs), loss, model, truth, bound);
  }
}

// One test: the Python side takes longer to start than all cases take.
TEST(AgainstPython, VisionTransformersAndGpt2GiveTheSameNumbers) {
#ifdef MAXBATCH_PYTHON
  torch::set_num_threads(1);
  auto const script = std::string(MAXBATCH_PYTHON) + " " MAXBATCH_LANGUAGE_VISION_REFERENCE;
  if (std::system((script + " --can-run >/dev/null 2>&1").c_str()) != 0) {
    GTEST_SKIP() << "timm and transformers cannot be imported by " MAXBATCH_PYTHON
                    "; where they are installed, name it in PYTHONPATH";
  }
  Folder const folder;
  ASSERT_EQ(std::system((script + " --cases " + folder.path()).c_str()), 0);
  // In double only the order of sums differs; in float each block rounds on either side.
  expect_timms_vit(folder, "small_vit", small_vit(), every_variant(), 1e-12);
  expect_gpt2_of_transformers(folder, "small_gpt2", small_gpt2(), every_variant(), 1e-12);
  expect_timms_vit(folder, "vit_b_16", VisionTransformerOptions{}, two_variants(), 1e-5);
  expect_gpt2_of_transformers(folder, "gpt2", Gpt2Options{}, two_variants(), 1e-5);
#else
  GTEST_SKIP() << "LibTorch came without a Python beside it";
#endif
}

TEST(VisionTransformer, CountsItsParameters) {
  for (auto const& options : {small_vit(), VisionTransformerOptions{}}) {
    std::int64_t count = 0;
    for (auto const& parameter : VisionTransformer(options, torch::kMeta).parameters()) { count += parameter.numel(); }
    EXPECT_EQ(models::parameter_count(options), count);
  }
  EXPECT_EQ(models::parameter_count(VisionTransformerOptions{}), 86567656);
}

TEST(VisionTransformer, RefusesImagesOfAnotherSizeAndOptionsThatMakeNoModel) {
  VisionTransformer model(small_vit());
  EXPECT_THAT(
      [&] {
        model.forward(torch::zeros({1, 3, 40, 48}));
      },
      ThrowsMessage<InvalidArgument>(HasSubstr("takes images [N, 3, 48, 40]")));
  auto options = small_vit();
  options.heads = 5;
  EXPECT_THAT([&] { VisionTransformer{options}; },
              ThrowsMessage<InvalidArgument>(HasSubstr("5 heads over a width of 24")));
}

TEST(Gpt2, CountsItsParameters) {
  for (auto const& options : {small_gpt2(), Gpt2Options{}}) {
    std::int64_t count = 0;
    for (auto const& parameter : Gpt2(options, torch::kMeta).parameters()) { count += parameter.numel(); }
    EXPECT_EQ(models::parameter_count(options), count);
  }
  EXPECT_EQ(models::parameter_count(Gpt2Options{}), 124439808);
}

TEST(Gpt2, LooksAtNoLaterToken) {
  torch::manual_seed(3);
  for (auto const attention : {Attention::written_out, Attention::fused}) {
    auto options = small_gpt2();
    options.attention = attention;
    Gpt2 model(options);
    model.eval();
    auto const tokens = torch::randint(options.vocabulary, {2, 9}, torch::kInt64);
    auto const changed = tokens.clone();
    changed.slice(1, 6) += 1;
    changed.remainder_(options.vocabulary);
    auto const first = model.forward(tokens);
    auto const second = model.forward(changed);
    EXPECT_TRUE(at::allclose(first.slice(1, 0, 6), second.slice(1, 0, 6)));
    EXPECT_FALSE(at::allclose(first.slice(1, 6), second.slice(1, 6)));
  }
}

TEST(Gpt2, RefusesSequencesLongerThanItsPositions) {
  Gpt2 model(small_gpt2());
  EXPECT_THAT(
      [&] {
        model.forward(torch::zeros({1, 21}, torch::kInt64));
      },
      ThrowsMessage<InvalidArgument>(HasSubstr("1 to 20 tokens")));
}

}  // namespace
}  // namespace maxbatch::test
