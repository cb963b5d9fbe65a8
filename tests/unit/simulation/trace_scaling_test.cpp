#include "support/recorded_pair.hpp"
#include "support/synthetic_program.hpp"
#include <maxbatch/search/errors.hpp>
#include <maxbatch/simulation/trace_file.hpp>
#include <maxbatch/simulation/trace_scaling.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace maxbatch {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

using test::SyntheticProgram;

SizedProgram sized(SyntheticProgram const& program, std::int64_t batch_size) {
  return {batch_size, program.at(batch_size)};
}

/// The first difference, in words; empty: none.
std::string difference(AllocationProgram const& scaled, AllocationProgram const& truth) {
  for (std::size_t i = 0; i < truth.operations.size() && i < scaled.operations.size(); ++i) {
    if (!(scaled.operations[i] == truth.operations[i])) { return "operation " + std::to_string(i); }
  }
  for (std::size_t i = 0; i < truth.requests.size() && i < scaled.requests.size(); ++i) {
    if (scaled.requests[i].size != truth.requests[i].size) {
      return "size of request " + std::to_string(i) + ": " + std::to_string(scaled.requests[i].size) + ", not " +
             std::to_string(truth.requests[i].size);
    }
  }
  if (truth.operations.size() != scaled.operations.size()) {
    return std::to_string(scaled.operations.size()) + " operations, not " + std::to_string(truth.operations.size());
  }
  return "";
}

void expect_exact(SyntheticProgram const& program, std::int64_t small, std::int64_t large, std::string const& what) {
  TraceScaling const scaling({sized(program, small), sized(program, large)});
  for (std::int64_t const target : {7, 9, 17}) {
    ASSERT_EQ(difference(scaling.at(target), program.at(target)), "")
        << what << ", from " << small << " and " << large << " to " << target;
  }
}

TEST(TraceScaling, GivesWhatARandomProgramWouldAskAtOtherSizes) {
  int with_loops = 0;
  for (std::uint64_t seed = 1; seed <= 300; ++seed) {
    SyntheticProgram const program(seed);
    for (std::int64_t const large : {3, 5, 6}) { expect_exact(program, 2, large, "seed " + std::to_string(seed)); }
    with_loops += TraceScaling({sized(program, 2), sized(program, 3)}).statement(9).loops > 0 ? 1 : 0;
  }
  EXPECT_GT(with_loops, 100);
}

/// From one and two samples it cannot be told whether the second iteration lets go of what the first one made, or what
/// follows the loop does.
TEST(TraceScaling, GivesTheSameFromOneSampleIfNoIterationHandsOn) {
  for (std::uint64_t seed = 1; seed <= 300; ++seed) {
    expect_exact(SyntheticProgram(seed, SyntheticProgram::HandOn::never), 1, 2, "seed " + std::to_string(seed));
  }
}

TEST(TraceScaling, SizesInBetweenHaveFewerIterations) {
  for (std::uint64_t seed = 1; seed <= 50; ++seed) {
    SyntheticProgram const program(seed);
    TraceScaling const scaling({sized(program, 2), sized(program, 6)});
    ASSERT_EQ(difference(scaling.at(4), program.at(4)), "") << "seed " << seed;
  }
}

TEST(TraceScaling, ARecordedSizeIsTheRecording) {
  SyntheticProgram const program(7);
  TraceScaling const scaling({sized(program, 3), sized(program, 2)});
  EXPECT_EQ(difference(scaling.at(2), program.at(2)), "");
  EXPECT_EQ(difference(scaling.at(3), program.at(3)), "");
}

TEST(TraceScaling, AThirdRecordingChecksTheLaws) {
  SyntheticProgram const program(11);
  auto third = sized(program, 4);
  TraceScaling const agreeing({sized(program, 2), sized(program, 3), third});
  EXPECT_GT(agreeing.checked_requests(), 0U);
  EXPECT_EQ(agreeing.disproved_requests(), 0U);

  for (auto& request : third.program.requests) {
    if (request.size == program.at(4).requests.back().size) { request.size += 4096; }
  }
  TraceScaling const disagreeing({sized(program, 2), sized(program, 3), std::move(third)});
  EXPECT_GT(disagreeing.disproved_requests(), 0U);
}

TEST(TraceScaling, RefusesWhatIsNoPairOfSizes) {
  SyntheticProgram const program(3);
  EXPECT_THAT([&] { TraceScaling({sized(program, 2)}); },
              ThrowsMessage<InvalidArgument>(HasSubstr("two batch sizes or more")));
  EXPECT_THAT(
      [&] {
        TraceScaling({sized(program, 2), sized(program, 2)});
      },
      ThrowsMessage<InvalidArgument>(HasSubstr("two recordings of batch size 2")));
  EXPECT_THAT(
      [&] {
        TraceScaling({sized(program, 2), sized(SyntheticProgram(4), 3)});
      },
      ThrowsMessage<TraceError>(HasSubstr("not of one program: they part at request 0")));
}

/// The sums of live requests in dry runs of ViT-B and GPT-2 at larger sizes, where sums over rows have got scratch that they
/// have not at 2 and 3 samples (data/prediction/README.md).
TEST(TraceScaling, PeaksOfRecordedModelsAtLargerSizes) {
  if (!test::has_zlib()) { GTEST_SKIP() << "maxbatch was built without zlib"; }
  TraceScaling const vit(test::recorded_pair("vit_b_16"));
  EXPECT_EQ(least_peak(vit.at(8)).count, 2152411136);
  EXPECT_EQ(least_peak(vit.at(16)).count, 3175854080);
  EXPECT_EQ(least_peak(vit.at(32)).count, 5230518272);
  EXPECT_GT(vit.statement(16).reductions_begun, 0U);
  EXPECT_TRUE(vit.has_same_structure().front());

  TraceScaling const gpt2(test::recorded_pair("gpt2"));
  EXPECT_EQ(least_peak(gpt2.at(12)).count, 12222091264);
  EXPECT_EQ(least_peak(gpt2.at(24)).count, 22882742272);
  EXPECT_EQ(gpt2.statement(24).of(SizeLaw::Kind::jumping).requests, 0U);
}

TEST(TraceScaling, ConvolutionsHaveWorkspaces) {
  if (!test::has_zlib()) { GTEST_SKIP() << "maxbatch was built without zlib"; }
  TraceScaling const scaling(test::recorded_pair("resnet50_sgd"));
  auto const statement = scaling.statement(24);
  EXPECT_EQ(statement.of(SizeLaw::Kind::workspace).requests, 72U);
  EXPECT_GT(statement.of(SizeLaw::Kind::workspace).at_peak.count, 0);
  EXPECT_LT(least_peak(scaling.at(24), /*without_workspaces=*/true), least_peak(scaling.at(24)));
  auto by_law = statement.only_in_larger.at_peak;
  for (auto const& share : statement.by_law) { by_law = by_law + share.at_peak; }
  EXPECT_EQ(by_law, statement.peak);
}

}  // namespace
}  // namespace maxbatch
