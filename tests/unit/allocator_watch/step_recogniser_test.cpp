#include "allocator_watch/step_recogniser.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

namespace maxbatch::dry {
namespace {

StepFigures step(std::int64_t peak, std::int64_t reserved = 100) { return {peak, reserved, 0, 0}; }

/// After how many of these steps it is settled; 0: never.
std::int64_t settles_after(std::int64_t wanted, std::vector<StepFigures> const& steps) {
  StepRecogniser recogniser(wanted);
  for (auto const& one : steps) {
    recogniser.add(one);
    if (recogniser.is_settled()) { return recogniser.count(); }
  }
  return 0;
}

TEST(StepRecogniser, TheFirstStepDiffersAndTheNextTwoAreEqual) {
  EXPECT_EQ(settles_after(3, {step(50), step(70), step(70), step(70)}), 3);
  EXPECT_EQ(settles_after(2, {step(50), step(70), step(70), step(70)}), 3);
  EXPECT_EQ(settles_after(5, {step(70), step(70), step(70), step(70), step(70)}), 5);
}

TEST(StepRecogniser, ReservedMemoryThatStillGrowsIsNoRepetition) {
  EXPECT_EQ(settles_after(3, {step(70, 80), step(70, 90), step(70, 100), step(70, 110), step(70, 110)}), 5);
}

TEST(StepRecogniser, TwoKindsOfStepsInTurnAreARound) {
  std::vector<StepFigures> steps;
  for (int i = 0; i < 5; ++i) {
    steps.push_back(step(60));
    steps.push_back(step(90));
  }
  EXPECT_EQ(settles_after(3, steps), 6);
}

TEST(StepRecogniser, StepsThatDifferForEverSettleOnceTheyBringNothingNew) {
  std::vector<StepFigures> steps = {step(50), step(99)};
  for (int i = 0; i < 40; ++i) { steps.push_back(step(50 + (i * i * 7) % 41)); }
  EXPECT_EQ(settles_after(3, steps), 22);
}

TEST(StepRecogniser, AnewPeakLateStartsTheQuietAgain) {
  std::vector<StepFigures> steps;
  for (int i = 0; i < 15; ++i) { steps.push_back(step(50 + (i * i * 7) % 41)); }
  steps.push_back(step(200));
  for (int i = 0; i < 40; ++i) { steps.push_back(step(50 + (i * i * 7) % 41)); }
  EXPECT_EQ(settles_after(3, steps), 36);
}

TEST(StepRecogniser, StepsWithRetriesMustLeaveALayoutThatWasThereBefore) {
  auto const pressed = [](std::uint64_t layout) { return StepFigures{70, 100, 1, layout}; };
  EXPECT_EQ(settles_after(3, {pressed(1), pressed(2), pressed(3), pressed(4)}), 0);
  EXPECT_EQ(settles_after(3, {pressed(1), pressed(2), pressed(3), pressed(3)}), 4);
  std::vector<StepFigures> never;
  for (std::uint64_t i = 0; i < 200; ++i) { never.push_back(pressed(i)); }
  EXPECT_EQ(settles_after(3, never), 0);
}

TEST(StepRecogniser, OneStepIsNeverEnough) {
  EXPECT_EQ(settles_after(1, {step(70)}), 0);
  EXPECT_EQ(settles_after(1, {step(70), step(70)}), 2);
}

}  // namespace
}  // namespace maxbatch::dry
