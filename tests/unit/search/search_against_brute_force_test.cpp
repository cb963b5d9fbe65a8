#include "support/memory_laws.hpp"
#include "support/scripted_probe.hpp"
#include <maxbatch/search/allowed_sizes.hpp>
#include <maxbatch/search/batch_size_search.hpp>
#include <maxbatch/search/phase_line_predictor.hpp>

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <sstream>
#include <string>

namespace maxbatch {
namespace {

using namespace test;

struct Case {
  LawKind kind;
  ScriptedProbe::Law law;
  Bytes budget;
  SearchOptions options;
  bool tells_phases = true;
  bool has_predictor = true;

  bool fits(std::int64_t size) const {
    for (auto const& phase : law(size)) {
      if (phase.peaks.reserved > budget) { return false; }
    }
    return true;
  }

  std::string describe() const {
    std::ostringstream text;
    text << "law " << static_cast<int>(kind) << ", budget " << budget.count << ", min " << options.minimum << ", max "
         << options.maximum.value_or(-1) << ", multiple of " << options.multiple_of << ", divisor of "
         << options.divisor_of.value_or(-1) << ", enough " << options.enough.value_or(-1) << ", probe_above "
         << options.probe_above.value_or(-1) << ", max_trials " << options.max_trials.value_or(-1);
    return text.str();
  }
};

Case random_case(std::mt19937_64& random) {
  auto const log_uniform = [&random](double most) {
    return static_cast<std::int64_t>(std::exp(std::uniform_real_distribution<double>(0, std::log(most))(random)));
  };
  auto const one_in = [&random](int n) { return random() % static_cast<unsigned>(n) == 0; };
  Case drawn;
  drawn.kind = kAllLawKinds[random() % std::size(kAllLawKinds)];
  drawn.law = random_law(drawn.kind, random);
  auto const limit = one_in(20) ? 0 : log_uniform(100000);
  // The budget that lets about `limit` through; for a limit of zero one byte less than the smallest size wants.
  std::int64_t at_limit = 0;
  for (auto const& phase : drawn.law(std::max<std::int64_t>(limit, 1))) {
    at_limit = std::max(at_limit, phase.peaks.reserved.count);
  }
  drawn.budget = Bytes{std::max<std::int64_t>(1, limit == 0 ? at_limit - 1 : at_limit)};
  drawn.tells_phases = !one_in(3);
  drawn.has_predictor = drawn.kind != LawKind::unmeasured && !one_in(5);
  auto& options = drawn.options;
  if (one_in(3)) { options.minimum = log_uniform(static_cast<double>(std::max<std::int64_t>(2, limit))); }
  if (one_in(3)) { options.maximum = options.minimum + log_uniform(200000) - 1; }
  if (one_in(4)) { options.multiple_of = log_uniform(64); }
  if (one_in(5)) { options.divisor_of = log_uniform(200000); }
  if (one_in(5)) { options.enough = log_uniform(100000); }
  if (one_in(4)) { options.probe_above = static_cast<std::int64_t>(random() % 6); }
  if (one_in(8)) { options.max_trials = 1 + static_cast<std::int64_t>(random() % 12); }
  return drawn;
}

void check(Case const& drawn) {
  SCOPED_TRACE(drawn.describe());
  auto const probe = ScriptedProbe::of_memory(drawn.law, drawn.budget, drawn.tells_phases);
  PhaseLinePredictor predictor(drawn.budget);
  AllowedSizes const sizes(drawn.options);
  auto const result = search_largest_batch_size(probe, drawn.options, drawn.has_predictor ? &predictor : nullptr);

  std::map<std::int64_t, int> failures;
  std::map<std::int64_t, int> passes;
  ASSERT_EQ(result.trials.size(), probe.asked().size());
  for (auto const& trial : result.trials) {
    auto const index = sizes.index_at_most(trial.batch_size);
    ASSERT_TRUE(index >= 0 && sizes.at(index) == trial.batch_size) << trial.batch_size << " is not allowed";
    ASSERT_EQ(is_fit(trial.outcome.verdict), drawn.fits(trial.batch_size));
    ++(is_fit(trial.outcome.verdict) ? passes : failures)[trial.batch_size];
  }
  auto const largest_passing = passes.empty() ? std::optional<std::int64_t>{} : passes.rbegin()->first;
  ASSERT_EQ(result.batch_size, largest_passing);
  if (drawn.options.max_trials) {
    ASSERT_LE(static_cast<std::int64_t>(result.trials.size()), *drawn.options.max_trials);
  }

  auto const next_index = result.batch_size ? sizes.index_at_most(*result.batch_size) + 1 : 0;
  bool const has_next = next_index < sizes.count();
  auto const next_failures = has_next ? failures[sizes.at(next_index)] : 0;
  bool all_above_failed = has_next;
  if (has_next && sizes.count() - next_index > 1000) { all_above_failed = false; }  // no case tries that many
  for (auto i = next_index; all_above_failed && i < sizes.count(); ++i) {
    all_above_failed = failures[sizes.at(i)] > 0;
  }

  switch (result.proof) {
    case Proof::nothing_fits:
      ASSERT_FALSE(result.batch_size.has_value());
      ASSERT_GE(next_failures, 2);
      break;
    case Proof::bracketed:
    case Proof::exhausted:
      ASSERT_TRUE(result.batch_size.has_value() && has_next);
      ASSERT_EQ(result.next_batch_size, sizes.at(next_index));
      ASSERT_GE(next_failures, 2);
      ASSERT_EQ(result.proof == Proof::exhausted, all_above_failed);
      break;
    case Proof::at_allowed_maximum:
    case Proof::enough:
      ASSERT_FALSE(has_next);
      ASSERT_EQ(result.proof == Proof::enough, sizes.ends_at_enough());
      break;
    case Proof::best_so_far:
      ASSERT_TRUE(drawn.options.max_trials.has_value());
      ASSERT_LT(next_failures, 2);
      break;
    case Proof::other_limit: FAIL() << "every failure was about memory";
  }
  if (is_monotone(drawn.kind) && result.proof != Proof::best_so_far && has_next) {
    ASSERT_FALSE(drawn.fits(sizes.at(next_index)));  // monotone: so nothing larger fits
  }
  bool const ran_out = static_cast<std::int64_t>(result.trials.size()) == drawn.options.max_trials;
  if (drawn.options.probe_above && has_next && result.proof != Proof::best_so_far && !ran_out) {
    for (std::int64_t i = 0; i <= *drawn.options.probe_above && next_index + i < sizes.count(); ++i) {
      ASSERT_GE(failures[sizes.at(next_index + i)], 1) << "not looked at";
    }
  }
  for (auto const gap : result.gaps) { ASSERT_TRUE(failures[gap] > 0 && gap < result.batch_size); }
  // Even where predictions mislead, a bracket closes within a small multiple of plain bisection; a gap opens it anew.
  ASSERT_LE(result.trial_count(), 60 + 40 * static_cast<std::int64_t>(result.gaps.size())) << "trials";
}

TEST(SearchAgainstBruteForce, EveryAnswerIsRunAllowedProvenAndOnMonotoneMemoryTheLargest) {
  std::mt19937_64 random(20261201);
  std::map<LawKind, int> checked;
  for (int round = 0; round < 60000; ++round) {
    auto const drawn = random_case(random);
    try {
      AllowedSizes const sizes(drawn.options);
    } catch (InvalidArgument const&) { continue; }
    check(drawn);
    if (testing::Test::HasFatalFailure()) { FAIL() << "round " << round; }
    ++checked[drawn.kind];
  }
  for (auto const kind : kAllLawKinds) { EXPECT_GT(checked[kind], 5000); }
}

}  // namespace
}  // namespace maxbatch
