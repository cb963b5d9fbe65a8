#include "support/recorded_pair.hpp"
#include "support/synthetic_program.hpp"
#include <maxbatch/search/errors.hpp>
#include <maxbatch/simulation/batch_prediction.hpp>
#include <maxbatch/simulation/card_catalogue.hpp>
#include <maxbatch/simulation/trace_file.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace maxbatch {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

using namespace literals;

PredictionTarget under(Bytes limit) {
  PredictionTarget target;
  target.limit = limit;
  return target;
}

TraceScaling scaling_of(test::SyntheticProgram const& program) {
  return TraceScaling({{2, program.at(2)}, {3, program.at(3)}});
}

bool runs(AllocationProgram const& program, Bytes limit) {
  ProgramRunOptions options;
  options.limit = limit;
  options.placement.seed = 1;
  return run_program(program, driver_events_of(program), options).fits;
}

/// The truth: the program itself, made and run at every size.
TEST(BatchPrediction, IsTheLargestSizeThatRunsOfRandomPrograms) {
  PredictionOptions one_draw;
  one_draw.draws = 1;
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    test::SyntheticProgram const program(seed);
    auto const scaling = scaling_of(program);
    for (std::int64_t const mib : {600, 2000, 5000}) {
      Bytes const limit{mib << 20};
      auto const prediction = predict_largest_batch(scaling, under(limit), one_draw);
      std::int64_t largest = 0;
      for (std::int64_t size = 1; size <= 300 && least_peak(program.at(size)) <= limit; ++size) {
        if (runs(program.at(size), limit)) { largest = size; }
      }
      // Sizes that fit above one that does not are looked for one step above the answer, not further.
      auto const found = prediction.largest_batch_size.value_or(0);
      EXPECT_TRUE(found == largest || (found < largest && !runs(program.at(found + 1), limit)))
          << "seed " << seed << ", " << mib << " MiB: " << found << ", not " << largest;
      EXPECT_GE(prediction.elastic_largest_batch_size, prediction.largest_batch_size);
    }
  }
}

TEST(BatchPrediction, NothingFits) {
  auto const scaling = scaling_of(test::SyntheticProgram(1));
  auto const prediction = predict_largest_batch(scaling, under(2_MiB));
  EXPECT_EQ(prediction.largest_batch_size, std::nullopt);
  EXPECT_EQ(prediction.elastic_largest_batch_size, std::nullopt);
}

TEST(BatchPrediction, StopsAtTheLargestThatIsAllowed) {
  auto const scaling = scaling_of(test::SyntheticProgram(1));
  PredictionOptions options;
  options.largest_allowed = 4;
  auto const prediction = predict_largest_batch(scaling, under(60000_MiB), options);
  EXPECT_EQ(prediction.largest_batch_size, 4);
  EXPECT_TRUE(prediction.is_largest_allowed);
}

TEST(BatchPrediction, RefusesABudgetOfNothing) {
  auto const scaling = scaling_of(test::SyntheticProgram(1));
  EXPECT_THAT([&] { predict_largest_batch(scaling, under(0_B)); },
              ThrowsMessage<InvalidArgument>(HasSubstr("must be at least 1 byte")));
}

/// What LibTorch's own allocator refused and granted on a dry H200 (data/prediction/README.md): 3 steps in a process of
/// their own at the answer and at the next size.
TEST(BatchPrediction, IsWhatRanOfRecordedModels) {
  if (!test::has_zlib()) { GTEST_SKIP() << "maxbatch was built without zlib"; }
  struct Case {
    char const* model;
    std::int64_t limit_mib;
    std::int64_t largest;
  };
  for (auto const& [model, limit_mib, largest] :
       {Case{"vit_b_16", 3500, 17}, Case{"vit_b_16", 6600, 43}, Case{"gpt2", 12000, 12}, Case{"gpt2", 22000, 22},
        Case{"resnet50_sgd", 3200, 33}}) {
    TraceScaling const scaling(test::recorded_pair(model));
    auto const prediction = predict_largest_batch(scaling, under(Bytes{limit_mib << 20}));
    EXPECT_EQ(prediction.largest_batch_size, largest) << model << " under " << limit_mib << " MiB";
  }
}

TEST(BatchPrediction, ARefusedWorkspaceMakesTheAnswerElastic) {
  // Two tensors and a workspace of 200 MiB at any size; without it a sample needs 100 MiB more.
  auto at = [](std::int64_t batch_size) {
    AllocationProgram program;
    auto make = [&](std::int64_t size) {
      program.requests.push_back({size, 0, 0, 0, false});
      auto const request = static_cast<std::uint32_t>(program.requests.size() - 1);
      program.operations.push_back({ProgramOperation::Kind::allocate, request});
      return request;
    };
    for (int i = 0; i < 40; ++i) { make(4096 + 512 * i); }
    make(batch_size * (100 << 20));
    auto const workspace = make((200 << 20) + batch_size * 1000 + 16);
    program.operations.push_back({ProgramOperation::Kind::free, workspace});
    return program;
  };
  TraceScaling const scaling({{2, at(2)}, {3, at(3)}});
  auto const prediction = predict_largest_batch(scaling, under(1010_MiB));
  EXPECT_EQ(prediction.largest_batch_size, 8);
  EXPECT_EQ(prediction.elastic_largest_batch_size, 10);
  EXPECT_TRUE(prediction.is_elastic());
  ASSERT_TRUE(prediction.refused_workspace && prediction.short_by);
  EXPECT_GT(*prediction.refused_workspace, *prediction.short_by);
}

TEST(PredictionTarget, AWholeCardIsWithoutItsContext) {
  auto const& card = CardCatalogue::built_in().find("h200");
  auto const target = whole_card(card);
  EXPECT_EQ(target.budget(), card.total_memory - card.context.when_training());
  auto limited = target;
  limited.limit = 10_GiB;
  EXPECT_EQ(limited.budget(), 10_GiB);
}

}  // namespace
}  // namespace maxbatch
