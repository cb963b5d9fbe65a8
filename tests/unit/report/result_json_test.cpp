#include "support/made_up_result.hpp"
#include <maxbatch/report/result_json.hpp>
#include <maxbatch/report/version.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <string>

namespace maxbatch::test {
namespace {

using nlohmann::json;

TEST(ResultJson, SaysTheAnswerWithItsEvidence) {
  auto const object = json::parse(to_json(made_up_result(), made_up_subject()));
  EXPECT_EQ(object["model"], "net");
  EXPECT_EQ(object["device"], "cpu");
  EXPECT_EQ(object["device_name"], "cpu under a budget");
  EXPECT_EQ(object["evidence"], "cpu");
  EXPECT_EQ(object["budget_bytes"], 64 * kMiB) << "the whole, as the user gave it";
  EXPECT_EQ(object["headroom_bytes"], 4 * kMiB);
  EXPECT_EQ(object["largest_batch_size"], 12);
  EXPECT_EQ(object["next_batch_size"], 13);
  EXPECT_EQ(object["proof"], "bracketed");
  EXPECT_EQ(object["reason"], "batch size 13: out of memory, twice");
  EXPECT_EQ(object["failed_request_bytes"], 2 * kMiB);
  EXPECT_EQ(object["failed_segment_bytes"], nullptr);
  EXPECT_EQ(object["short_by_at_least_bytes"], kMiB);
  EXPECT_EQ(object["failed_phase"], "backward");
  EXPECT_EQ(object["peak_reserved_bytes"], 60 * kMiB);
  EXPECT_EQ(object["peak_allocated_bytes"], 60 * kMiB);
  EXPECT_EQ(object["seconds"], 1.25);
  EXPECT_EQ(object["steps"], 3);
  EXPECT_EQ(object["trial_count"], 4);
  EXPECT_EQ(object["warnings"], json::array({"a warning"}));
  EXPECT_EQ(object["version"], version());
  EXPECT_EQ(object["recipe"],
            json::parse(R"({"optimizer": "adamw-fused", "precision": "fp32", "accumulation": 1, "image_size": [32, 48],
                            "sequence_length": null, "checkpoint": false, "channels_last": false})"));
}

TEST(ResultJson, RecordsEveryTrial) {
  auto const object = json::parse(to_json(made_up_result(), made_up_subject()));
  ASSERT_EQ(object["trials"].size(), 4U);
  auto const& fits = object["trials"][1];
  EXPECT_EQ(fits["batch_size"], 12);
  EXPECT_EQ(fits["outcome"], "fits");
  EXPECT_EQ(fits["purpose"], "scout");
  EXPECT_EQ(fits["seconds"], 0.25);
  EXPECT_EQ(fits["steps"], 3);
  EXPECT_EQ(fits["peak_reserved_bytes"], 60 * kMiB);
  EXPECT_EQ(fits["peak_allocated_bytes"], 60 * kMiB);
  EXPECT_EQ(fits["failed_request_bytes"], nullptr);
  EXPECT_EQ(fits["phases"]["forward"]["peak_reserved_bytes"], 59 * kMiB);
  auto const& fails = object["trials"][3];
  EXPECT_EQ(fails["outcome"], "out of memory");
  EXPECT_EQ(fails["purpose"], "repeat");
  EXPECT_EQ(fails["failed_request_bytes"], 2 * kMiB);
}

TEST(ResultJson, IsNullWhereThereIsNothingToSay) {
  auto const object = json::parse(to_json(made_up_result_where_nothing_fits(), made_up_subject()));
  EXPECT_EQ(object["largest_batch_size"], nullptr);
  EXPECT_EQ(object["proof"], "nothing fits");
  EXPECT_EQ(object["peak_reserved_bytes"], nullptr);
  EXPECT_EQ(object["peak_allocated_bytes"], nullptr);
  EXPECT_EQ(object["largest_clean_batch_size"], nullptr);
  EXPECT_EQ(object["accumulation_plan"], nullptr);
  EXPECT_EQ(object["failed_request_bytes"], 2 * kMiB) << "of the smallest size, which failed";

  auto at_maximum = made_up_result();
  at_maximum.search.proof = Proof::at_allowed_maximum;
  at_maximum.search.next_batch_size.reset();
  at_maximum.search.trials.resize(2);
  auto const bounded = json::parse(to_json(at_maximum, made_up_subject()));
  EXPECT_EQ(bounded["next_batch_size"], nullptr);
  EXPECT_EQ(bounded["failed_request_bytes"], nullptr);
  EXPECT_EQ(bounded["proof"], "at the allowed maximum");
}

TEST(ResultJson, SaysNoPeaksThatNobodyMeasured) {
  auto result = made_up_result();
  for (auto& trial : result.search.trials) { trial.outcome.peaks = {}; }
  auto const object = json::parse(to_json(result, made_up_subject()));
  EXPECT_EQ(object["peak_reserved_bytes"], nullptr);
  EXPECT_EQ(object["trials"][0]["peak_reserved_bytes"], nullptr);
}

TEST(ResultJson, HasTheSameKeysWhateverHappened) {
  auto const keys = [](json const& object) {
    std::vector<std::string> names;
    for (auto const& [name, value] : object.items()) { names.push_back(name); }
    return names;
  };
  EXPECT_EQ(keys(json::parse(to_json(made_up_result(), made_up_subject()))),
            keys(json::parse(to_json(made_up_result_where_nothing_fits(), ReportSubject{}))));
}

TEST(ResultJson, PlansTheAccumulation) {
  auto subject = made_up_subject();
  subject.effective_batch = 96;
  auto const object = json::parse(to_json(made_up_result(), subject));
  EXPECT_EQ(object["effective_batch"], 96);
  EXPECT_EQ(object["accumulation_plan"], json::parse(R"({"batch_size": 12, "count": 8, "batch_size_ran": true})"));
}

TEST(ResultJson, PutsSeveralResultsIntoOneObject) {
  ReportEntry failed;
  failed.subject = made_up_subject();
  failed.error = "shapes do not match";
  auto const object = json::parse(to_json({{made_up_subject(), made_up_result(), std::nullopt}, failed}, "a note"));
  EXPECT_EQ(object["note"], "a note");
  ASSERT_EQ(object["results"].size(), 2U);
  EXPECT_EQ(object["results"][0]["largest_batch_size"], 12);
  EXPECT_EQ(object["results"][0]["error"], nullptr);
  EXPECT_EQ(object["results"][1]["error"], "shapes do not match");
  EXPECT_EQ(object["results"][0]["speed"], nullptr);
}

TEST(ResultJson, HoldsTheEasyInputsAndTheSpeed) {
  auto result = made_up_result();
  EXPECT_EQ(json::parse(to_json(result, made_up_subject()))["easy_inputs"], nullptr);
  result.easy_inputs = EasyInputs{"easy_net", fitting_trial(12, Bytes{30 * kMiB}).outcome};
  auto const easy = json::parse(to_json(result, made_up_subject()))["easy_inputs"];
  EXPECT_EQ(easy["model"], "easy_net");
  EXPECT_EQ(easy["outcome"], "fits");
  EXPECT_EQ(easy["peak_reserved_bytes"], 30 * kMiB);

  SpeedResult speed;
  auto& size = speed.sizes.emplace_back();
  size.batch_size = size.samples_per_training_step = 12;
  size.training_times = StepTimes{{0.5}, 1};
  auto const row = json::parse(to_json({{made_up_subject(), result, std::nullopt, speed}}, ""))["results"][0];
  EXPECT_EQ(row["speed"]["training_knee"], 12);
  EXPECT_EQ(row["speed"]["inference_knee"], nullptr);
  EXPECT_EQ(row["speed"]["sizes"][0]["training"]["samples_per_second"], 24);
}

}  // namespace
}  // namespace maxbatch::test
