// What a program's trials record, and what a search makes of it. tests/program_search runs programs.
#include "cli/program_predictor.hpp"

#include "cli/next_sizes.hpp"
#include "cli/program_recording.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>

namespace maxbatch::cli {
namespace {

using dry::EventPage;
using dry::StepMark;
using dry::WatchedEvent;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using namespace literals;

/// The page of a training program, as a watch writes it: weights, activations that grow with the batch, gradients, and from the
/// first step on two moments.
class RecordedTraining {
 public:
  static constexpr Bytes kWeights = 100_MiB;
  static constexpr Bytes kMoments = 200_MiB;
  static constexpr Bytes kPerSample = 16_MiB;

  explicit RecordedTraining(std::int64_t batch_size) : page_(new EventPage{}), batch_size_(batch_size) {
    page_->process = 1;
    page_->total_bytes = (11_GiB).count;
    write(WatchedEvent::Kind::alloc, kWeightsAt, kWeights);
  }

  void step(StepMark mark = StepMark::optimizer) {
    write(WatchedEvent::Kind::alloc, kActivationsAt, Bytes{kPerSample.count * batch_size_});
    write(WatchedEvent::Kind::alloc, kGradientsAt, kWeights);
    if (std::exchange(is_first_, false)) { write(WatchedEvent::Kind::alloc, kMomentsAt, kMoments); }
    for (auto const address : {kActivationsAt, kGradientsAt}) {
      write(WatchedEvent::Kind::free_requested, address, {});
      write(WatchedEvent::Kind::free_completed, address, {});
    }
    write(WatchedEvent::Kind::step_end, 0, Bytes{static_cast<std::int64_t>(mark)});
  }
  RecordedTraining& steps(int count) {
    for (int i = 0; i < count; ++i) { step(); }
    return *this;
  }
  EventPage& page() { return *page_; }
  ProgramRecording recording() const { return recording_of(*page_, StepMark::optimizer); }

 private:
  static constexpr std::uint64_t kWeightsAt = 0x1000;
  static constexpr std::uint64_t kActivationsAt = 0x2000;
  static constexpr std::uint64_t kGradientsAt = 0x3000;
  static constexpr std::uint64_t kMomentsAt = 0x4000;

  void write(WatchedEvent::Kind kind, std::uint64_t address, Bytes size) {
    auto& event = page_->event.at(page_->written++);
    event.address = address;
    event.size = size.count;
    event.kind = kind;
  }

  std::unique_ptr<EventPage> page_;
  std::int64_t batch_size_;
  bool is_first_ = true;
};

TEST(ProgramRecording, HasEventsAndTheEndsOfStepsThatCount) {
  RecordedTraining training(2);
  training.step(StepMark::backward);  // before an optimizer was seen
  training.steps(2);
  auto const recording = training.recording();
  EXPECT_EQ(recording.problem, "");
  EXPECT_EQ(recording.steps, 2);
  EXPECT_EQ(recording.trace.events.size(), 1U + 7U + 6U + 6U);
  EXPECT_EQ(recording.trace.events.at(1).size, (32_MiB).count);
  EXPECT_EQ(recording.trace.total_memory, 11_GiB);
  EXPECT_EQ(first_steps_of(recording, 1).events.size(), 1U + 7U + 6U);
  EXPECT_THROW(first_steps_of(recording, 3), std::invalid_argument);
}

TEST(ProgramRecording, EndsBeforeAnEventThatWasNotWrittenToItsEnd) {
  RecordedTraining training(2);
  training.step();
  ++training.page().written;  // killed there
  EXPECT_EQ(training.recording().trace.events.size(), 1U + 7U);
}

TEST(ProgramRecording, SaysWhyThereIsNone) {
  auto const page = std::make_unique<EventPage>();
  EXPECT_THAT(recording_of(*page, StepMark::optimizer).problem, HasSubstr("could not be watched"));
  page->process = 1;
  page->is_mixed = 1;
  EXPECT_THAT(recording_of(*page, StepMark::optimizer).problem, HasSubstr("several processes or devices"));
}

ProgramKnowledge knowledge_under(Bytes limit) {
  ProgramKnowledge knowledge({}, 1, true);
  knowledge.limit = limit;
  knowledge.target.limit = limit;
  return knowledge;
}

/// The largest batch of RecordedTraining: nothing is rounded in blocks of whole MiB.
std::int64_t largest_under(Bytes limit) {
  auto const constant = 2 * RecordedTraining::kWeights.count + RecordedTraining::kMoments.count;
  return (limit.count - constant) / RecordedTraining::kPerSample.count;
}

TEST(ProgramKnowledge, TwoRecordingsPredictTheAnswer) {
  auto knowledge = knowledge_under(1000_MiB);
  EXPECT_THAT(knowledge.wanted(), ElementsAre(2, 3));
  knowledge.learn(3, Verdict::fits, RecordedTraining(3).steps(5).recording(), false);  // as trials side by side end
  EXPECT_EQ(knowledge.predicted_size(), std::nullopt);
  knowledge.learn(2, Verdict::fits, RecordedTraining(2).steps(3).recording(), false);
  EXPECT_EQ(knowledge.problem(), "");
  EXPECT_EQ(knowledge.predicted_size(), largest_under(1000_MiB));
  EXPECT_THAT(knowledge.wanted(), IsEmpty());
}

TEST(ProgramKnowledge, WhatCannotBeRecordedEndsIt) {
  auto pressed = knowledge_under(1000_MiB);
  pressed.learn(2, Verdict::fits_under_pressure, RecordedTraining(2).steps(3).recording(), false);
  EXPECT_THAT(pressed.problem(), HasSubstr("the trial of 2: fits under pressure"));
  EXPECT_THAT(pressed.wanted(), IsEmpty());

  auto too_long = knowledge_under(1000_MiB);
  RecordedTraining endless(2);
  endless.page().written = EventPage::kEvents + 1;
  too_long.learn(2, Verdict::fits, endless.recording(), true);
  EXPECT_THAT(too_long.problem(), HasSubstr("more than 262144 allocator events"));
}

TEST(ProgramKnowledge, NothingIsRecordedWhereNothingIsScaled) {
  EXPECT_THAT(ProgramKnowledge({}, 2, true).wanted(), IsEmpty());
  EXPECT_THAT(ProgramKnowledge({}, 1, false).wanted(), IsEmpty());
  SearchOptions one_size;
  one_size.maximum = 2;
  EXPECT_THAT(ProgramKnowledge(one_size, 1, true).wanted(), IsEmpty());
}

TrialRecord record_of(std::int64_t size, Verdict verdict) {
  TrialRecord record;
  record.batch_size = size;
  record.outcome.verdict = verdict;
  return record;
}

TEST(ProgramPredictor, KnowsWhatWasRecordedAfterItWasMade) {
  auto knowledge = knowledge_under(1000_MiB);
  ProgramPredictor predictor(knowledge);
  EXPECT_THAT(predictor.scouts(), ElementsAre(2, 3));
  predictor.observe(record_of(2, Verdict::fits));
  EXPECT_THAT(predictor.scouts(), ElementsAre(3));
  knowledge.learn(2, Verdict::fits, RecordedTraining(2).steps(3).recording(), false);
  knowledge.learn(3, Verdict::fits, RecordedTraining(3).steps(3).recording(), false);
  predictor.observe(record_of(3, Verdict::fits));
  auto const largest = largest_under(1000_MiB);
  EXPECT_THAT(predictor.scouts(), IsEmpty());
  EXPECT_EQ(predictor.predict().value().best, largest);
  predictor.observe(record_of(largest, Verdict::out_of_memory));
  EXPECT_EQ(predictor.predict().value().best, largest - 1);
}

TEST(NextSizes, BothSidesOfThePredictedBoundaryRunSideBySide) {
  auto knowledge = knowledge_under(1000_MiB);
  KnownTrials known;
  auto const plan = [&](std::size_t count) {
    std::vector<std::int64_t> sizes;
    auto const maker = [&] { return std::make_unique<ProgramPredictor>(knowledge); };
    for (auto const& key : next_trials({}, known, knowledge.limit, maker, count)) { sizes.push_back(key.size); }
    return sizes;
  };
  EXPECT_THAT(plan(2), ElementsAre(2, 3));
  for (std::int64_t const size : {2, 3}) {
    known[{size, 0}] = TrialOutcome::fits(MemoryPeaks::all(500_MiB));  // no slope: peaks alone would let all sizes fit
    knowledge.learn(size, Verdict::fits, RecordedTraining(size).steps(3).recording(), false);
  }
  auto const largest = largest_under(1000_MiB);
  EXPECT_THAT(plan(2), ElementsAre(largest, largest + 1));
}

}  // namespace
}  // namespace maxbatch::cli
