#include "session.hpp"
#include <maxbatch/cli/program.hpp>
#include <maxbatch/search/errors.hpp>

#include <ATen/ops/empty.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <csignal>
#include <functional>
#include <memory>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

namespace maxbatch::test {
namespace {

using nlohmann::json;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::StartsWith;

/// What the program told a model.
struct Told {
  int times_made = 0;
  Recipe recipe;
  std::vector<StepMode> modes;
};

/// 4 KiB per sample and nothing else, so that every answer can be told by head; `also` may do anything at a size.
ModelFactory rows(std::shared_ptr<Told> told, std::function<void(std::int64_t)> also = nullptr) {
  ModelFactory model;
  model.name = "rows";
  model.description = "4 KiB per sample";
  model.image_size = ImageSize{32, 32};
  model.make = [told, also](c10::Device, Recipe const& recipe) {
    ++told->times_made;
    told->recipe = recipe;
    PreparedStep prepared;
    prepared.step = [told, also](Trial& trial) {
      told->modes.push_back(trial.mode());
      if (also) { also(trial.batch_size()); }
      trial.phase(Phase::forward, [&] { at::empty({trial.batch_size(), 1024}, at::kFloat); });
    };
    return prepared;
  };
  return model;
}

class Program : public testing::Test {
 protected:
  Session run(std::vector<std::string> const& arguments) {
    models::ModelRegistry models;
    models.add(rows(told_, also_));
    return test::run(arguments, models);
  }

  Session find(std::vector<std::string> more, std::string const& budget = "64KiB") {
    std::vector<std::string> arguments = {"find", "--model", "rows", "--device", "cpu", "--budget", budget};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return run(arguments);
  }

  /// The answer as JSON; standard output must hold that and nothing else.
  json found(std::vector<std::string> more, int expected_code = 0) {
    more.insert(more.end(), {"--format", "json"});
    auto const session = find(more);
    EXPECT_EQ(session.code, expected_code) << session.err;
    return json::parse(session.out);
  }

  std::shared_ptr<Told> told_ = std::make_shared<Told>();
  std::function<void(std::int64_t)> also_;
};

TEST_F(Program, AnswersOnStandardOutputAndReportsOnStandardError) {
  auto const session = find({});
  EXPECT_EQ(session.code, 0);
  EXPECT_THAT(session.out,
              AllOf(StartsWith("rows: adamw-fused, fp32, 32x32 images; on cpu"), HasSubstr("16 fits: 3 steps"),
                    HasSubstr("17 does not: forward asked for 68 KiB"), HasSubstr("bracketed")));
  EXPECT_THAT(session.err, AllOf(StartsWith("trial 1: batch 1 (scout) fits, peak 4 KiB, "),
                                 HasSubstr("batch 17 (repeat) out of memory in forward, asking for 68 KiB, ")));
  EXPECT_EQ(session.err.find('\x1b'), std::string::npos) << "a pipe is no terminal";
}

TEST_F(Program, PrintsJsonAndNothingElse) {
  auto const answer = found({});
  for (auto const* const key : {"model", "device", "budget_bytes", "largest_batch_size", "proof", "reason",
                                "failed_request_bytes", "peak_reserved_bytes", "peak_allocated_bytes", "seconds"}) {
    EXPECT_TRUE(answer.contains(key)) << key;
  }
  EXPECT_EQ(answer["model"], "rows");
  EXPECT_EQ(answer["device"], "cpu");
  EXPECT_EQ(answer["budget_bytes"], 65536);
  EXPECT_EQ(answer["largest_batch_size"], 16);
  EXPECT_EQ(answer["failed_request_bytes"], 17 * 4096);
  EXPECT_EQ(answer["peak_reserved_bytes"], 65536);
  for (auto const& trial : answer["trials"]) {
    for (auto const* const key : {"batch_size", "outcome", "seconds", "peak_reserved_bytes", "peak_allocated_bytes"}) {
      EXPECT_TRUE(trial.contains(key)) << key;
    }
  }
}

TEST_F(Program, TriesOnlyTheSizesThatAreAllowed) {
  EXPECT_EQ(found({"--max", "16"})["proof"], "at the allowed maximum");
  EXPECT_EQ(found({"--max", "7"})["largest_batch_size"], 7);
  EXPECT_EQ(found({"--min", "16"})["largest_batch_size"], 16);
  EXPECT_EQ(found({"--multiple-of", "5"})["largest_batch_size"], 15);
  EXPECT_EQ(found({"--enough", "4"})["largest_batch_size"], 4);
  EXPECT_EQ(found({"--enough", "4"})["proof"], "enough");
}

TEST_F(Program, SaysThatNothingFits) {
  auto const answer = found({"--min", "17"}, 3);
  EXPECT_EQ(answer["largest_batch_size"], nullptr);
  EXPECT_EQ(answer["proof"], "nothing fits");
}

TEST_F(Program, TriesDivisorsOfAnEffectiveBatchWithGradientsResident) {
  auto const answer = found({"--effective-batch", "24"});
  EXPECT_EQ(answer["largest_batch_size"], 12);
  EXPECT_EQ(answer["accumulation_plan"]["count"], 2);
  EXPECT_EQ(told_->recipe.accumulation, 2);
  EXPECT_THAT(find({"--effective-batch", "24"}).out, HasSubstr("Effective batch 24: 2 micro-batches of 12 per"));
  found({"--effective-batch", "24", "--accumulation", "3"});
  EXPECT_EQ(told_->recipe.accumulation, 3) << "the caller's own number stands";
}

TEST_F(Program, KeepsHeadroomFree) {
  auto const answer = found({"--headroom", "16KiB"});
  EXPECT_EQ(answer["largest_batch_size"], 12);
  EXPECT_EQ(answer["budget_bytes"], 65536);
  EXPECT_EQ(answer["headroom_bytes"], 16384);
}

TEST_F(Program, StopsAtABudgetOfTrialsOrTime) {
  auto const after_trials = found({"--max-trials", "1"}, 4);
  EXPECT_EQ(after_trials["proof"], "best so far");
  EXPECT_EQ(after_trials["trials"].size(), 1U);
  EXPECT_EQ(after_trials["largest_batch_size"], 1);
  EXPECT_EQ(found({"--max-seconds", "0.000001"}, 4)["proof"], "best so far");
}

TEST_F(Program, RunsTheStepsThatWereAskedFor) {
  EXPECT_EQ(found({"--steps", "5"})["trials"][0]["steps"], 5);
  told_->modes.clear();
  found({"--order", "train,evaluate,train", "--max", "1"});
  ASSERT_GE(told_->modes.size(), 3U);
  EXPECT_THAT(std::vector<StepMode>(told_->modes.begin(), told_->modes.begin() + 3),
              ElementsAre(StepMode::train, StepMode::evaluate, StepMode::train));
}

TEST_F(Program, ProbesAboveTheBoundary) { EXPECT_EQ(found({"--probe-above", "3"})["neighbour_trial_count"], 3); }

TEST_F(Program, TellsTheModelHowItIsTrained) {
  auto const answer = found(
      {"--optimizer", "sgd", "--precision", "bf16", "--accumulation", "4", "--image-size", "48x64", "--max", "1"});
  EXPECT_EQ(told_->recipe.optimizer, OptimizerKind::sgd);
  EXPECT_EQ(told_->recipe.precision, Precision::bf16);
  EXPECT_EQ(told_->recipe.accumulation, 4);
  EXPECT_EQ(told_->recipe.image_size, (ImageSize{48, 64}));
  EXPECT_EQ(answer["recipe"]["image_size"], json::array({48, 64}));
}

TEST_F(Program, SaysWhyAStepFailedThatIsNotAboutMemory) {
  also_ = [](std::int64_t) { throw std::runtime_error("shapes do not match\nwith a backtrace"); };
  auto const session = find({});
  EXPECT_EQ(session.code, 1);
  EXPECT_THAT(session.err, HasSubstr("maxbatch: the step failed, and not for memory: shapes do not match\n"));
  EXPECT_THAT(session.out, IsEmpty());
}

TEST_F(Program, AnswersWithTheReasonWhenALargerSizeFailsForAnotherOne) {
  also_ = [](std::int64_t batch_size) {
    if (batch_size > 9) { throw std::runtime_error("at most 9 here"); }
  };
  auto const answer = found({});
  EXPECT_EQ(answer["largest_batch_size"], 9);
  EXPECT_EQ(answer["proof"], "other limit");
  EXPECT_THAT(answer["reason"].get<std::string>(), HasSubstr("at most 9 here"));
}

TEST_F(Program, StopsAfterTheTrialInWhichItIsInterrupted) {
  auto is_first = std::make_shared<bool>(true);
  also_ = [is_first](std::int64_t batch_size) {
    if (batch_size > 1 && *is_first) {
      *is_first = false;
      std::raise(SIGINT);
    }
  };
  auto const answer = found({}, 4);
  EXPECT_EQ(answer["proof"], "best so far");
  EXPECT_EQ(answer["trials"].size(), 2U);
  EXPECT_NE(answer["largest_batch_size"], nullptr);
}

TEST_F(Program, TabulatesModelsUnderBudgets) {
  auto const text = run({"table", "--budgets", "16KiB,64KiB"});
  EXPECT_EQ(text.code, 0) << text.err;
  EXPECT_THAT(text.out, AllOf(HasSubstr("on this machine's CPU"), HasSubstr("No GPU was used")));
  EXPECT_THAT(text.err, HasSubstr("rows under 16 KiB: trial 1: batch 1 (scout) fits"));

  auto const object =
      json::parse(run({"table", "--models", "rows", "--budgets", "16KiB,64KiB", "--format", "json"}).out);
  ASSERT_EQ(object["results"].size(), 2U);
  EXPECT_EQ(object["results"][0]["largest_batch_size"], 4);
  EXPECT_EQ(object["results"][1]["largest_batch_size"], 16);
}

TEST_F(Program, GoesOnWithTheTableAfterARowThatFailed) {
  auto is_first = std::make_shared<bool>(true);
  also_ = [is_first](std::int64_t) {
    if (*is_first) {
      *is_first = false;
      throw std::runtime_error("only once");
    }
  };
  auto const session = run({"table", "--budgets", "16KiB,64KiB"});
  EXPECT_EQ(session.code, 1);
  EXPECT_THAT(session.out, AllOf(HasSubstr("rows under 16 KiB failed: only once"), HasSubstr("  16  ")));
}

TEST_F(Program, TabulatesWhatDoesNotFit) {
  EXPECT_EQ(run({"table", "--budgets", "1KiB,64KiB"}).code, 3);
  EXPECT_EQ(run({"table", "--budgets", "1KiB,64KiB", "--max-trials", "1"}).code, 4);
}

TEST_F(Program, ListsTheModels) {
  auto const session = run({"models"});
  EXPECT_EQ(session.code, 0);
  EXPECT_EQ(session.out,
            "model  images      parameters  what it is\nrows   32x32                -  4 KiB per sample\n");
  auto const listed = json::parse(run({"models", "--format", "json"}).out);
  EXPECT_EQ(listed[0]["model"], "rows");
  EXPECT_EQ(listed[0]["image_size"], json::array({32, 32}));
  EXPECT_EQ(listed[0]["parameters"], nullptr);
}

TEST_F(Program, Teaches) {
  auto const help = run({"--help"});
  EXPECT_EQ(help.code, 0);
  EXPECT_THAT(help.err, IsEmpty());
  EXPECT_THAT(help.out, AllOf(HasSubstr("find"), HasSubstr("table"), HasSubstr("models"), HasSubstr("Exit codes:"),
                              HasSubstr("Examples:")));
  auto const find_help = run({"find", "--help"});
  EXPECT_EQ(find_help.code, 0);
  for (auto const* const option : {"--model",
                                   "--device",
                                   "--budget",
                                   "--optimizer",
                                   "--precision",
                                   "--min",
                                   "--max",
                                   "--multiple-of",
                                   "--effective-batch",
                                   "--enough",
                                   "--headroom",
                                   "--steps",
                                   "--max-seconds",
                                   "--max-trials",
                                   "--format",
                                   "--accumulation",
                                   "--image-size",
                                   "--order",
                                   "--probe-above",
                                   "Examples:",
                                   "Exit codes:",
                                   "adamw-fused, the default"}) {
    EXPECT_THAT(find_help.out, HasSubstr(option));
  }
  EXPECT_EQ(run({"table", "--help"}).code, 0);
  EXPECT_EQ(run({"models", "--help"}).code, 0);
  EXPECT_THAT(run({"--version"}).out, StartsWith("maxbatch 0."));
}

TEST_F(Program, MeasuresSpeed) {
  auto const session = run({"bench", "--model", "rows", "--device", "cpu", "--batches", "4,1,400", "--budget", "64KiB",
                            "--round-seconds", "0.001", "--rounds", "3", "--format", "json"});
  ASSERT_EQ(session.code, 0) << session.err;
  auto const answer = json::parse(session.out);
  EXPECT_EQ(answer["model"], "rows");
  EXPECT_EQ(answer["recipe"]["optimizer"], "adamw-fused");
  ASSERT_EQ(answer["sizes"].size(), 3U);
  auto const& four = answer["sizes"][1];
  EXPECT_EQ(four["batch_size"], 4);
  for (auto const* const kind : {"training", "inference"}) {
    auto const& times = four[kind];
    EXPECT_EQ(times["outcome"], "fits");
    EXPECT_EQ(times["peak_allocated_bytes"], 4 * 4096);
    EXPECT_EQ(times["rounds"], 3);
    EXPECT_LE(times["fastest_seconds"], times["median_seconds"]);
    EXPECT_LE(times["median_seconds"], times["slowest_seconds"]);
    EXPECT_NEAR(times["samples_per_second"].get<double>(), 4 / times["median_seconds"].get<double>(), 1);
  }
  EXPECT_EQ(answer["sizes"][2]["training"]["outcome"], "out of memory");
  EXPECT_EQ(answer["sizes"][2]["training"]["samples_per_second"], nullptr);
  EXPECT_GT(answer["latency"]["median_seconds"], 0);

  auto const text = run(
      {"bench", "--model", "rows", "--device", "cpu", "--boundary", "--budget", "64KiB", "--round-seconds", "0.001"});
  EXPECT_EQ(text.code, 0) << text.err;
  EXPECT_THAT(text.out, AllOf(StartsWith("rows: adamw-fused, fp32, 32x32 images; on cpu"), HasSubstr("images/s"),
                              HasSubstr("latency of one image"), HasSubstr("   16  ")));
}

TEST_F(Program, PutsEasyInputsBesideTheAnswer) {
  EXPECT_EQ(found({})["easy_inputs"], nullptr);
  models::ModelRegistry models;
  auto hard = rows(told_);
  hard.name = "hard";
  hard.easy_twin = "easy";
  auto easy = rows(told_);
  easy.name = "easy";
  easy.make = [](c10::Device, Recipe const& recipe) {
    EXPECT_EQ(recipe.accumulation, 2);
    PreparedStep prepared;
    prepared.step = [](Trial& trial) { at::empty({trial.batch_size(), 512}, at::kFloat); };
    return prepared;
  };
  models.add(hard);
  models.add(easy);
  std::vector<std::string> const words = {"find", "--model", "hard", "--budget", "64KiB", "--effective-batch", "32"};
  auto with_json = words;
  with_json.insert(with_json.end(), {"--format", "json"});
  auto const answer = json::parse(test::run(with_json, models).out);
  EXPECT_EQ(answer["largest_batch_size"], 16);
  EXPECT_EQ(answer["peak_reserved_bytes"], 64 << 10);
  EXPECT_EQ(answer["easy_inputs"]["model"], "easy");
  EXPECT_EQ(answer["easy_inputs"]["peak_reserved_bytes"], 32 << 10);
  auto const text = test::run(words, models);
  EXPECT_EQ(text.code, 0);
  EXPECT_THAT(text.out, HasSubstr("(easy, one run; no part of the proof)"));
}

TEST_F(Program, TabulatesSpeed) {
  auto const text = run({"table", "--models", "rows", "--budgets", "16KiB", "--speed"});
  EXPECT_EQ(text.code, 0) << text.err;
  EXPECT_THAT(text.out, HasSubstr("training/s"));
  auto const row = json::parse(
      run({"table", "--models", "rows", "--budgets", "16KiB", "--speed", "--format", "json"}).out)["results"][0];
  EXPECT_EQ(row["speed"]["sizes"].back()["batch_size"], 4);
  EXPECT_GT(row["speed"]["sizes"].back()["training"]["samples_per_second"], 0);
  EXPECT_THAT(run({"table", "--models", "rows", "--budgets", "16KiB"}).out, testing::Not(HasSubstr("training/s")));
}

TEST_F(Program, LogsWhatItIsAskedTo) {
  EXPECT_THAT(find({"--max", "1", "-v"}).err, HasSubstr("info: searching for the largest batch of rows"));
  EXPECT_THAT(find({"--max", "1", "--log-level", "info"}).err, HasSubstr("info: searching"));
  EXPECT_THAT(find({"--max", "1"}).err, testing::Not(HasSubstr("info:")));
}

struct Mistake {
  std::vector<std::string> arguments;
  std::string complaint;
};

std::vector<std::string> find_with(std::vector<std::string> more) {
  std::vector<std::string> arguments = {"find", "--model", "rows", "--budget", "64KiB"};
  arguments.insert(arguments.end(), more.begin(), more.end());
  return arguments;
}

// One test for all: a process of its own for each, as ctest runs tests, would load LibTorch forty times.
TEST_F(Program, SaysWhatIsWrongInOneSentenceBeforeAnyWork) {
  std::vector<Mistake> const mistakes = {
      Mistake{{}, "give a command: find, table, bench, models, cards, replay or trace"},  //
      Mistake{{"fnd"}, "'fnd' is not understood; did you mean 'find'?"},
      Mistake{find_with({"--bugdet", "1GiB"}), "'--bugdet' is not understood; did you mean '--budget'?"},
      Mistake{find_with({"--optimiser=sgd"}), "'--optimiser=sgd' is not understood; did you mean '--optimizer'?"},
      Mistake{{"find", "--budget", "64KiB"}, "--model or --script is required"},
      Mistake{find_with({"--script", "net.pt", "--input-shape", "N,3"}), "the script 'net.pt' cannot be read"},
      Mistake{find_with({"--input-shape", "N,3"}), "--input-shape describes a script, and there is no --script"},
      Mistake{{"find", "--script", "net.pt"}, "--script 'net.pt' needs --input-shape"},
      Mistake{{"find", "--script", "net.pt", "--input-shape", "1,3"}, "it begins with N, the batch"},
      Mistake{{"find", "--script", "net.pt", "--input-shape", "N,3,0"}, "size '0' is not a whole number"},
      Mistake{{"find", "--script", "net.pt", "--input-shape", "N,3", "--loss", "nll"}, "--loss 'nll' is not known"},
      Mistake{{"bench", "--model", "rows", "--device", "rtx-4090"}, "is a dry card, where nothing takes time"},
      Mistake{{"bench", "--model", "rows", "--batches", "1,0"}, "--batches '0' is not a whole number"},
      Mistake{{"bench", "--model", "rows", "--batches", "1", "--boundary"}, "--batches and --boundary"},
      Mistake{{"find", "--model", "row", "--budget", "64KiB"}, "there is no model 'row'; did you mean 'rows'?"},
      Mistake{{"table", "--models", "rows,net"}, "there is no model 'net'"},
      Mistake{find_with({"--device", "cuda:77"}), "--device 'cuda:77': There is no cuda:77"},
      Mistake{find_with({"--device", "rtx-2090"}),
              "--device takes cpu, cuda:N for a card of this machine, or a card's"},
      Mistake{{"table", "--cards", "rtx-2090"}, "--cards: "},
      Mistake{{"table", "--models", "rows", "--cards", "rtx-4090", "--speed"}, "nothing takes time there"},
      Mistake{find_with({"--device", "cpuu"}), "--device 'cpuu' is not known; did you mean 'cpu'?"},
      Mistake{{"find", "--model", "rows", "--budget", "lots"}, "--budget 'lots' is not an amount of memory"},
      Mistake{{"table", "--budgets", "64KiB,"}, "--budgets '' is not an amount of memory"},
      Mistake{find_with({"--headroom", "-1KiB"}), "--headroom"},
      Mistake{find_with({"--headroom", "64KiB"}), "headroom"},
      Mistake{find_with({"--optimizer", "adam"}), "--optimizer 'adam' is not known; did you mean 'adamw'?"},
      Mistake{find_with({"--precision", "fp8"}), "--precision 'fp8' is not known"},
      Mistake{find_with({"--min", "0"}), "--min '0' is not a whole number of at least 1"},
      Mistake{find_with({"--min", "-4"}), "--min"},
      Mistake{find_with({"--min"}), "--min needs a value"},
      Mistake{find_with({"--max", "many"}), "--max 'many' is not a whole number"},
      Mistake{find_with({"--min", "8", "--max", "4"}), "--min 8 is above --max 4"},
      Mistake{find_with({"--multiple-of", "8", "--max", "7"}), "7"},
      Mistake{find_with({"--effective-batch", "0"}), "--effective-batch '0'"},
      Mistake{find_with({"--enough", "0"}), "--enough '0'"},
      Mistake{find_with({"--probe-above", "x"}), "--probe-above 'x'"},
      Mistake{find_with({"--steps", "0"}), "--steps '0'"},
      Mistake{find_with({"--steps", "1"}), "--steps 1 would miss the optimizer's state"},
      Mistake{find_with({"--accumulation", "0"}), "--accumulation '0'"},
      Mistake{find_with({"--image-size", "64"}), "--image-size '64' is not height x width"},
      Mistake{find_with({"--order", "train,test"}), "--order 'test' is not known"},
      Mistake{find_with({"--max-seconds", "never"}), "--max-seconds 'never'"},
      Mistake{find_with({"--max-trials", "0"}), "--max-trials '0'"},
      Mistake{find_with({"--format", "yaml"}), "--format 'yaml' is not known; choose one of table, json"},
      Mistake{find_with({"--log-level", "loud"}), "--log-level 'loud' is not known"}};
  for (auto const& [arguments, complaint] : mistakes) {
    SCOPED_TRACE(testing::PrintToString(arguments));
    auto const session = run(arguments);
    EXPECT_EQ(session.code, 2);
    EXPECT_THAT(session.out, IsEmpty());
    EXPECT_THAT(session.err, AllOf(StartsWith("maxbatch: "), HasSubstr(complaint)));
    EXPECT_EQ(std::count(session.err.begin(), session.err.end(), '\n'), 1) << session.err;
    EXPECT_EQ(told_->times_made, 0);
  }
}

}  // namespace
}  // namespace maxbatch::test
