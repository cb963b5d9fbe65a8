#include "support/data_dependent_model.hpp"
#include <maxbatch/device/budgeted_cpu_device.hpp>
#include <maxbatch/models/small_cnn.hpp>
#include <maxbatch/models/small_transformer.hpp>
#include <maxbatch/training/max_batch_finder.hpp>

#include <torch/torch.h>

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <string>

namespace maxbatch {
namespace {

struct Model {
  ModelFactory factory;
  Recipe recipe;
  std::int64_t most = 12;  // the scan's last size
  int budgets = 120;
};

Recipe small_images() {
  Recipe recipe;
  recipe.image_size = ImageSize{16, 16};
  return recipe;
}

/// One trial of one size under a budget: a plain scan's probe, by way of the same public finder.
TrialOutcome run_once(Model const& model, std::int64_t size, Bytes budget) {
  FinderOptions options;
  options.steps = 2;
  options.search.minimum = size;
  options.search.maximum = size;
  options.search.max_trials = 1;
  return MaxBatchFinder(budgeted_cpu_device(budget), options)
      .find(model.factory, model.recipe)
      .search.trials.at(0)
      .outcome;
}

class FinderAgainstScan : public ::testing::TestWithParam<std::string> {
 protected:
  // Tiny tensors: a second thread would mostly wait, and on a busy machine for long.
  void SetUp() override {
    threads_ = at::get_num_threads();
    at::set_num_threads(1);
  }
  void TearDown() override { at::set_num_threads(threads_); }

  static Model model() {
    auto const name = GetParam();
    if (name == "small_cnn") { return {models::small_cnn(), small_images()}; }
    if (name == "small_transformer") { return {models::small_transformer(), Recipe{}}; }
    return {test::data_dependent_model(5), Recipe{}, 40};
  }

 private:
  int threads_ = 1;
};

TEST_P(FinderAgainstScan, AgreesForEveryBudget) {
  auto const tested = model();
  std::map<std::int64_t, Bytes> peaks;  // of each size, with all the memory it wants
  for (std::int64_t size = 1; size <= tested.most; ++size) {
    auto const outcome = run_once(tested, size, Bytes{std::int64_t{8} << 30});
    ASSERT_TRUE(is_fit(outcome.verdict));
    peaks[size] = outcome.peaks.reserved;
  }
  std::mt19937_64 random(1);
  std::uniform_int_distribution<std::int64_t> anywhere(peaks[1].count * 9 / 10, peaks[tested.most].count);
  int different_answers = 0;
  std::int64_t last_answer = -1;
  for (int round = 0; round < tested.budgets; ++round) {
    Bytes const budget{anywhere(random)};
    // A plain scan from 1: the last size before the first that does not fit.
    std::int64_t scanned = 0;
    while (scanned < tested.most && peaks[scanned + 1] <= budget) { ++scanned; }
    // That peaks tell what a scan under the budget would: on the sizes that matter, run it.
    if (round % 20 == 0) {
      if (scanned > 0) { ASSERT_TRUE(is_fit(run_once(tested, scanned, budget).verdict)); }
      if (scanned < tested.most) { ASSERT_EQ(run_once(tested, scanned + 1, budget).verdict, Verdict::out_of_memory); }
    }
    FinderOptions options;
    options.steps = 2;
    options.search.maximum = tested.most;
    auto const result = MaxBatchFinder(budgeted_cpu_device(budget), options).find(tested.factory, tested.recipe);
    ASSERT_EQ(result.batch_size().value_or(0), scanned) << "budget " << budget.count << ": " << result.summary();
    if (scanned > 0) { ASSERT_EQ(result.search.answer()->outcome.peaks.reserved, peaks[scanned]); }
    different_answers += scanned != last_answer ? 1 : 0;
    last_answer = scanned;
  }
  EXPECT_GT(different_answers, tested.budgets / 2);  // the budgets did ask different questions
}

INSTANTIATE_TEST_SUITE_P(RealModules, FinderAgainstScan,
                         ::testing::Values("small_cnn", "small_transformer", "data_dependent"),
                         [](auto const& instance) { return instance.param; });

}  // namespace
}  // namespace maxbatch
