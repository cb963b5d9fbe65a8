#include <maxbatch/impl/nearest_name.hpp>
#include <maxbatch/models/registry.hpp>
#include <maxbatch/search/errors.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace maxbatch::test {
namespace {

using models::ModelRegistry;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

ModelFactory model_named(std::string name) {
  ModelFactory factory;
  factory.name = std::move(name);
  factory.make = [](c10::Device, Recipe const&) { return PreparedStep{}; };
  return factory;
}

template <typename Call>
std::string complaint_of(Call const& call) {
  try {
    call();
  } catch (InvalidArgument const& error) { return error.what(); }
  return "(nothing was thrown)";
}

TEST(ModelRegistry, StartsWithTheBuiltInModels) {
  auto const registry = ModelRegistry::built_in();
  EXPECT_EQ(registry.at("small_cnn").image_size, (ImageSize{32, 32}));
  EXPECT_EQ(registry.at("small_transformer").image_size, std::nullopt);
  EXPECT_EQ(registry.at("resnet50").image_size, (ImageSize{224, 224}));
  EXPECT_EQ(registry.at("swin_l").image_size, (ImageSize{224, 224}));
  EXPECT_EQ(registry.at("swin_b_384_fused").image_size, (ImageSize{384, 384}));
}

TEST(ModelRegistry, TakesAModelOfTheCallersInOneLine) {
  EXPECT_EQ(ModelRegistry::built_in().add(model_named("my_net")).at("my_net").name, "my_net");
}

TEST(ModelRegistry, SuggestsTheNearestName) {
  auto const registry = ModelRegistry::built_in();
  EXPECT_THAT(
      complaint_of([&] { registry.at("smal_cnn"); }),
      HasSubstr("there is no model 'smal_cnn'; did you mean 'small_cnn'? Known: small_cnn, small_transformer, "));
  EXPECT_THAT(complaint_of([&] { registry.at("vgg16"); }),
              AllOf(HasSubstr("'vgg16'; known: small_cnn"), Not(HasSubstr("did you mean"))));
}

TEST(ModelRegistry, RefusesWhatItCouldNotFindOrBuild) {
  ModelRegistry registry;
  registry.add(model_named("one"));
  EXPECT_THAT(complaint_of([&] { registry.add(model_named("one")); }), HasSubstr("'one' is there already"));
  EXPECT_THAT(complaint_of([&] { registry.add(model_named("")); }), HasSubstr("needs a name"));
  EXPECT_THAT(complaint_of([&] {
                registry.add(ModelFactory{"two", "", std::nullopt, nullptr});
              }),
              HasSubstr("no `make`"));
  EXPECT_EQ(registry.all().size(), 1U);
}

TEST(NearestName, CountsASwapAsOneSlip) {
  EXPECT_EQ(detail::edit_distance("cudn", "cudnn"), 1U);
  EXPECT_EQ(detail::edit_distance("amdaw", "adamw"), 2U);
  EXPECT_EQ(detail::edit_distance("sdg", "sgd"), 1U);
  EXPECT_EQ(detail::edit_distance("", "abc"), 3U);
  EXPECT_EQ(detail::nearest_name("sdg", {"adamw", "sgd"}), "sgd");
  EXPECT_EQ(detail::nearest_name("lion", {"adamw", "sgd"}), std::nullopt);
}

}  // namespace
}  // namespace maxbatch::test
