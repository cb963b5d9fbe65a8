#include <maxbatch/models/registry.hpp>
#include <maxbatch/models/state_dict.hpp>
#include <maxbatch/models/swin_transformer.hpp>
#include <maxbatch/search/errors.hpp>

#include <torch/torch.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

namespace maxbatch::test {
namespace {

using models::SwinOptions;
using models::SwinTransformer;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

SwinOptions small_options() {
  SwinOptions options;
  options.image_size = {56, 56};
  options.classes = 10;
  options.width = 16;
  options.depths = {2, 2};
  options.heads = {2, 4};
  options.drop_path_rate = 0;
  return options;
}

template <typename Call>
std::string complaint_of(Call const& call) {
  try {
    call();
  } catch (InvalidArgument const& error) { return error.what(); }
  return "(nothing was thrown)";
}

using StateDict = c10::Dict<std::string, at::Tensor>;

StateDict state_dict_of(torch::nn::Module const& module) {
  StateDict dict;
  for (auto const& parameter : module.named_parameters()) {
    dict.insert(parameter.key(), parameter.value().detach().clone());
  }
  return dict;
}

/// A file in the format of torch.save, removed at the end.
class SavedFile {
 public:
  explicit SavedFile(c10::IValue const& value) : path_(testing::TempDir() + "swin_transformer_test.pt") {
    auto const bytes = torch::pickle_save(value);
    std::ofstream(path_, std::ios::binary).write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  }
  ~SavedFile() { std::filesystem::remove(path_); }
  SavedFile(SavedFile const&) = delete;
  SavedFile& operator=(SavedFile const&) = delete;

  std::string const& path() const { return path_; }

 private:
  std::string path_;
};

TEST(SwinTransformer, HasAsManyParametersAsTimms) {
  EXPECT_EQ(parameter_count(models::swin_tiny_options()), 28288354);
  EXPECT_EQ(parameter_count(models::swin_small_options()), 49606258);
  EXPECT_EQ(parameter_count(models::swin_base_options()), 87768224);
  EXPECT_EQ(parameter_count(models::swin_large_options()), 196532476);
  EXPECT_EQ(parameter_count(for_384(models::swin_base_options())), 87903584);
  EXPECT_EQ(parameter_count(for_384(models::swin_large_options())), 196735516);
}

TEST(SwinTransformer, CountsTheParametersThatItHas) {
  for (auto const size : {ImageSize{56, 56}, ImageSize{20, 36}}) {
    auto options = small_options();
    options.image_size = size;
    std::int64_t count = 0;
    for (auto const& parameter : SwinTransformer(options).parameters()) { count += parameter.numel(); }
    EXPECT_EQ(parameter_count(options), count);
  }
}

TEST(SwinTransformer, RefusesOptionsThatMakeNoModel) {
  auto const complaint = [](auto const& change) {
    auto options = small_options();
    change(options);
    return complaint_of([&] { SwinTransformer model(options); });
  };
  EXPECT_THAT(complaint([](auto& o) { o.depths = {}; }), HasSubstr("no stages"));
  EXPECT_THAT(complaint([](auto& o) { o.heads = {2}; }), HasSubstr("2 stages (depths) and 1 numbers of heads"));
  EXPECT_THAT(complaint([](auto& o) { o.heads = {2, 5}; }), HasSubstr("5 heads over 32 channels (stage 1)"));
  EXPECT_THAT(complaint([](auto& o) { o.window = 0; }), HasSubstr("window 0"));
  EXPECT_THAT(complaint([](auto& o) { o.drop_path_rate = 1; }), HasSubstr("rates are in [0, 1)"));
  EXPECT_THAT(complaint([](auto& o) { o.image_size = {2, 56}; }), HasSubstr("images of 2x56 pixels"));
}

TEST(SwinTransformer, RefusesWhatAreNoImages) {
  SwinTransformer model(small_options());
  EXPECT_THAT(complaint_of([&] {
                model.forward(torch::zeros({1, 4, 56, 56}));
              }),
              HasSubstr("was given [1, 4, 56, 56]"));
  EXPECT_THAT(complaint_of([&] { model.forward(torch::zeros({3, 56, 56})); }), HasSubstr("takes images [N, 3, H, W]"));
}

TEST(SwinTransformer, DropsBranchesInTrainingOnly) {
  auto options = small_options();
  options.drop_path_rate = 0.5;
  SwinTransformer model(options);
  auto const images = torch::randn({4, 3, 56, 56});
  torch::NoGradGuard const no_gradients;
  model.eval();
  EXPECT_TRUE(model.forward(images).equal(model.forward(images)));
  model.train();
  EXPECT_FALSE(model.forward(images).equal(model.forward(images)));
}

TEST(SwinTransformer, GivesTheSameWithAndWithoutRecordingGradients) {
  SwinTransformer model(small_options());
  model.eval();
  auto const images = torch::randn({2, 3, 56, 56});
  auto const recorded = model.forward(images);
  torch::NoGradGuard const no_gradients;
  EXPECT_TRUE(torch::allclose(model.forward(images), recorded, 1e-5, 1e-6));
}

TEST(SwinTransformer, KeepsItsIndexTablesWhenItsTypeChanges) {
  SwinTransformer model(small_options());
  model.to(torch::kBFloat16);
  EXPECT_EQ(model.forward(torch::randn({1, 3, 56, 56}, torch::kBFloat16)).scalar_type(), torch::kBFloat16);
  for (auto const& buffer : model.named_buffers()) {
    auto const is_mask = buffer.key().find("attn_mask") != std::string::npos;
    EXPECT_EQ(buffer.value().scalar_type(), is_mask ? torch::kBFloat16 : torch::kInt64) << buffer.key();
  }
}

TEST(SwinTransformer, GradientsAreThoseOfSmallSteps) {  // the backward pass is ours, so it is checked without timm, too
  auto options = small_options();
  options.image_size = {20, 36};
  options.width = 8;
  options.heads = {1, 2};
  SwinTransformer model(options);
  model.to(torch::kDouble);
  {
    torch::NoGradGuard const no_gradients;
    for (auto& parameter : model.parameters()) { parameter.normal_(0, 0.3); }
  }
  auto const images = torch::randn({2, 3, 20, 36}, torch::kDouble);
  auto const weights = torch::randn({2, 10}, torch::kDouble);
  auto const loss = [&] { return (model.forward(images) * weights).sum(); };
  loss().backward();
  for (auto const& item : model.named_parameters()) {
    torch::NoGradGuard const no_gradients;
    auto parameter = item.value();
    auto const direction = torch::randn_like(parameter);
    constexpr double kStep = 1e-6;
    parameter.add_(direction, kStep);
    auto const above = loss();
    parameter.add_(direction, -2 * kStep);
    auto const below = loss();
    parameter.add_(direction, kStep);
    auto const expected = ((above - below) / (2 * kStep)).item<double>();
    auto const found = (parameter.grad() * direction).sum().item<double>();
    EXPECT_NEAR(found, expected, 1e-5 * (1 + std::abs(expected))) << item.key();
  }
}

TEST(SwinTransformer, LoadsAStateDictByName) {
  SwinTransformer saved(small_options());
  SavedFile const file(state_dict_of(saved));
  SwinTransformer loaded(small_options());
  auto const images = torch::randn({1, 3, 56, 56});
  ASSERT_FALSE(loaded.forward(images).equal(saved.forward(images)));
  loaded.load_weights(file.path());
  EXPECT_TRUE(loaded.forward(images).equal(saved.forward(images)));
}

TEST(SwinTransformer, SkipsTablesThatOlderFilesHoldAndUnwrapsADict) {
  SwinTransformer model(small_options());
  auto dict = state_dict_of(model);
  dict.insert("layers.0.blocks.1.attn_mask", torch::zeros({4, 49, 49}));
  dict.insert("layers.0.blocks.0.attn.relative_position_index", torch::zeros({49, 49}, torch::kInt64));
  c10::Dict<std::string, StateDict> wrapped;
  wrapped.insert("state_dict", dict);
  SavedFile const file(wrapped);
  EXPECT_EQ(complaint_of([&] { model.load_weights(file.path()); }), "(nothing was thrown)");
}

TEST(SwinTransformer, NamesWhatAStateDictLacksAndChangesNothing) {
  SwinTransformer model(small_options());
  auto dict = state_dict_of(model);
  ASSERT_EQ(dict.erase("norm.bias"), 1U);
  dict.insert("norm.bais", torch::zeros({32}));
  dict.insert_or_assign("head.fc.weight", torch::zeros({1000, 32}));
  dict.insert_or_assign("head.fc.bias", torch::zeros({10}, torch::kInt64));
  dict.insert_or_assign("norm.weight", torch::full({32}, 7.0F));
  SavedFile const file(dict);
  EXPECT_THAT(complaint_of([&] { model.load_weights(file.path()); }),
              AllOf(HasSubstr("missing: norm.bias;"), HasSubstr("unexpected: norm.bais;"),
                    HasSubstr("head.fc.weight is [1000, 32] there and [10, 32] here"),
                    HasSubstr("head.fc.bias is Long there and Float here"), Not(HasSubstr("norm.weight"))));
  EXPECT_TRUE(model.named_parameters()["norm.weight"].equal(torch::ones({32})));
}

TEST(SwinTransformer, ListsAFewOfManyNames) {
  SwinTransformer model(small_options());
  SavedFile const file(StateDict{});
  EXPECT_THAT(complaint_of([&] { model.load_weights(file.path()); }), HasSubstr(" more"));
}

TEST(StateDict, RefusesFilesThatHoldNone) {
  torch::nn::Module module;
  EXPECT_THAT(complaint_of([&] { models::load_state_dict(module, "nowhere.pt"); }), HasSubstr("there is no such file"));
  auto const text_file = testing::TempDir() + "swin_transformer_test.txt";
  std::ofstream(text_file) << "not a zip file, whatever its name";
  EXPECT_THAT(complaint_of([&] { models::load_state_dict(module, text_file); }), HasSubstr("it is not a file that"));
  std::filesystem::remove(text_file);
  EXPECT_THAT(complaint_of([&] { models::load_state_dict(module, SavedFile(torch::zeros({2})).path()); }),
              HasSubstr("it holds a tensor, not a dict"));
  c10::Dict<std::string, std::string> words;
  words.insert("a", "b");
  EXPECT_THAT(complaint_of([&] { models::load_state_dict(module, SavedFile(words).path()); }),
              HasSubstr("its entry 'a' is a text, not a tensor"));
}

}  // namespace
}  // namespace maxbatch::test
