#include "support/remove_folder.hpp"
#include <maxbatch/device/budgeted_cpu_device.hpp>
#include <maxbatch/models/script_module.hpp>
#include <maxbatch/search/errors.hpp>
#include <maxbatch/training/max_batch_finder.hpp>

#include <torch/torch.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include <unistd.h>

namespace maxbatch::test {
namespace {

using namespace maxbatch::literals;
using models::script_factory;
using models::script_model_named;
using models::ScriptLoss;
using models::ScriptOptions;
using testing::AllOf;
using testing::HasSubstr;

ScriptOptions script(std::string const& file, std::vector<std::int64_t> shape,
                     ScriptLoss loss = ScriptLoss::cross_entropy) {
  ScriptOptions options;
  options.file = file;
  options.sample_shape = std::move(shape);
  options.loss = loss;
  return options;
}

template <typename Call>
std::string complaint_of(Call const& call) {
  try {
    call();
  } catch (InvalidArgument const& error) { return error.what(); }
  return "(nothing was thrown)";
}

FinderResult find(ModelFactory const& model, Recipe const& recipe, Bytes budget) {
  FinderOptions options;
  options.search.maximum = 4096;
  return MaxBatchFinder(budgeted_cpu_device(budget), options).find(model, recipe);
}

#ifdef MAXBATCH_PYTHON
// One test: Python takes seconds to start.
TEST(Scripts, OfPythonTrainAsAnyModel) {
  torch::set_num_threads(1);
  auto const folder = testing::TempDir() + "scripts_" + std::to_string(::getpid());
  std::filesystem::create_directories(folder);
  struct Remove {
    ~Remove() { remove_folder(path); }
    std::string path;
  } const remove{folder};
  ASSERT_EQ(std::system((std::string(MAXBATCH_PYTHON) + " " MAXBATCH_SAVE_SCRIPTS " " + folder).c_str()), 0);
  auto const file = [&](char const* name) { return folder + "/" + name; };
  auto const make = [](ModelFactory const& model, Recipe const& recipe = {}) {
    return complaint_of([&] { model.make(torch::kCPU, recipe); });
  };

  auto const net = script_factory(script(file("net.pt"), {3, 32, 32}));
  auto const result = find(net, {}, 4_MiB);
  EXPECT_EQ(result.search.proof, Proof::bracketed) << result.summary();
  EXPECT_GT(result.batch_size().value_or(0), 10);
  Recipe recipe;
  recipe.precision = Precision::bf16;
  recipe.optimizer = OptimizerKind::adamw_fused;
  recipe.accumulation = 2;
  recipe.channels_last = true;
  EXPECT_GT(find(net, recipe, 4_MiB).batch_size().value_or(0), 0);

  // Its own name makes it again, in another process.
  auto const again = script_model_named(net.name);
  ASSERT_TRUE(again);
  EXPECT_EQ(find(*again, {}, 4_MiB).batch_size(), result.batch_size());

  auto tokens = script(file("tokens.pt"), {16}, ScriptLoss::output);
  tokens.below = 50;
  auto const language = script_factory(tokens);
  EXPECT_EQ(find(language, {}, 1_MiB).search.proof, Proof::bracketed);
  EXPECT_EQ(script_model_named(language.name)->name, language.name);
  EXPECT_THAT(make(script_factory(script(file("tokens.pt"), {16}, ScriptLoss::output))),
              AllOf(HasSubstr("does not run on an input of N,16"), HasSubstr("tokens.pt")));

  auto const traced = script_factory(script(file("traced with; a name.pt"), {6}, ScriptLoss::mean_squared_error));
  EXPECT_EQ(script_model_named(traced.name)->name, traced.name);
  EXPECT_EQ(find(traced, {}, 64_KiB).search.proof, Proof::bracketed);

  EXPECT_THAT(make(script_factory(script(file("net.pt"), {4, 32, 32}))),
              AllOf(HasSubstr("does not run on an input of N,4,32,32"), HasSubstr("channels")));
  EXPECT_THAT(make(script_factory(script(file("net.pt"), {3, 32, 32}, ScriptLoss::output))),
              HasSubstr("makes [1, 5] of one sample: it takes a single number"));
  EXPECT_THAT(make(script_factory(script(file("frozen.pt"), {3, 32, 32}))), HasSubstr("no parameters to train"));
  EXPECT_THAT(make(script_factory(script(file("pair.pt"), {4}))), HasSubstr("gives a Tuple and not one tensor"));
  EXPECT_THAT(make(script_factory(script(file("dict.pt"), {4}))), HasSubstr("is no script"));
  EXPECT_THAT(make(script_factory(script(MAXBATCH_SAVE_SCRIPTS, {4}))), HasSubstr("is no script"));
  Recipe with_images;
  with_images.image_size = ImageSize{64, 64};
  EXPECT_THAT(make(net, with_images), HasSubstr("takes no images"));

  // A budget that holds not even one sample is memory, and no mistake.
  EXPECT_EQ(find(net, {}, 20_KiB).search.proof, Proof::nothing_fits);
}
#endif

TEST(Scripts, AreRefusedWhereNothingCouldBeMade) {
  EXPECT_THAT(complaint_of([] { script_factory(script("nowhere.pt", {3})); }),
              HasSubstr("the script 'nowhere.pt' cannot be read"));
  EXPECT_THAT(complaint_of([] { script_factory(script("nowhere.pt", {3, 0})); }), HasSubstr("N,3,0 holds nothing"));
}

TEST(Scripts, AreNotWhatOtherNamesMean) {
  for (auto const* const name : {"small_cnn", "script ", "script a; N,3; nll; floats", "script a; 3,3; mse; floats",
                                 "script a; N,x; mse; floats", "script a; N,3; mse; ", "script a; N,3; mse; below x",
                                 "script a; N3; mse; floats"}) {
    EXPECT_EQ(script_model_named(name).has_value(), false) << name;
  }
}

TEST(Scripts, HaveTheLossesOfTheCommandLine) {
  for (auto const loss : {ScriptLoss::cross_entropy, ScriptLoss::mean_squared_error, ScriptLoss::output}) {
    EXPECT_EQ(models::parse_script_loss(models::to_string(loss)), loss);
  }
  EXPECT_EQ(models::parse_script_loss("nll"), std::nullopt);
}

}  // namespace
}  // namespace maxbatch::test
