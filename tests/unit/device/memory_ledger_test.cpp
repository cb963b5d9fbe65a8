#include "device/memory_ledger.hpp"

#include "device/refusal_text.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <random>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <variant>
#include <vector>

namespace maxbatch::test {
namespace {

using detail::MemoryAccount;
using detail::MemoryLedger;
using detail::Refusal;
using detail::Reservation;
using ::testing::HasSubstr;

/// A pointer that is never followed.
void const* address(std::uintptr_t number) { return reinterpret_cast<void const*>(number * 64); }

/// One allocation as the allocator makes it, whose memory the machine may not have.
std::optional<Refusal> allocate(MemoryLedger& ledger, MemoryAccount& account, void const* key, std::size_t requested,
                                bool machine_has_it = true) {
  auto const admission = account.reserve(requested);
  if (auto const* const refusal = std::get_if<Refusal>(&admission)) { return *refusal; }
  auto const& reservation = std::get<Reservation>(admission);
  if (machine_has_it) {
    ledger.charge(key, account, reservation);
  } else {
    account.cancel(reservation);
  }
  return std::nullopt;
}

TEST(RoundedBytes, RoundsUpToBlocksAndSaturates) {
  EXPECT_EQ(detail::rounded_bytes(0), 0);
  EXPECT_EQ(detail::rounded_bytes(1), 512);
  EXPECT_EQ(detail::rounded_bytes(512), 512);
  EXPECT_EQ(detail::rounded_bytes(513), 1024);
  auto const largest = detail::rounded_bytes(std::numeric_limits<std::size_t>::max());
  EXPECT_GT(largest, std::numeric_limits<std::int64_t>::max() - 512);
  EXPECT_EQ(largest % 512, 0);
  EXPECT_EQ(detail::rounded_bytes(std::size_t{1} << 63), largest);
}

TEST(MemoryLedger, GrantsTheLastByteAndRefusesTheNext) {
  MemoryLedger ledger;
  auto& account = ledger.account(0);
  auto const window = ledger.open_window(account, {Bytes{2048}, Bytes{512}});
  EXPECT_FALSE(allocate(ledger, account, address(1), 1025));  // 1536: exactly what is left
  auto const refusal = allocate(ledger, account, address(2), 1);
  ASSERT_TRUE(refusal);
  EXPECT_EQ(refusal->free, Bytes{0});
  EXPECT_EQ(refusal->request.short_by_at_least, Bytes{512});
  ledger.release(address(1));
  EXPECT_FALSE(allocate(ledger, account, address(2), 1536));
  ledger.release(address(2));
  EXPECT_EQ(ledger.close_window(account, window)->peak.rounded, 2048);
  EXPECT_FALSE(ledger.has_charges());
}

TEST(MemoryLedger, RefusesEverythingWhereResidentBytesExceedTheBudget) {
  MemoryLedger ledger;
  auto& account = ledger.account(0);
  ledger.open_window(account, {Bytes{1024}, Bytes{4096}});
  auto const refusal = allocate(ledger, account, address(1), 1);
  ASSERT_TRUE(refusal);
  EXPECT_EQ(refusal->free, Bytes{0});
}

TEST(MemoryLedger, SurvivesTheLargestRequestThereIs) {
  MemoryLedger ledger;
  auto& account = ledger.account(0);
  ledger.open_window(account, {Bytes{std::numeric_limits<std::int64_t>::max()}, Bytes{0}});
  EXPECT_FALSE(allocate(ledger, account, address(1), std::size_t{1} << 62));
  auto const refusal = allocate(ledger, account, address(2), std::numeric_limits<std::size_t>::max());
  ASSERT_TRUE(refusal);
  EXPECT_EQ(refusal->request.requested.count, std::numeric_limits<std::int64_t>::max());
  EXPECT_THAT(detail::refusal_text(*refusal), HasSubstr("Tried to allocate more than 1EB memory"));
  ledger.release(address(1));
}

TEST(MemoryLedger, FailsTheChosenAllocationOnceAndOfOneWindowOnly) {
  MemoryLedger ledger;
  auto& account = ledger.account(0);
  auto const window = ledger.open_window(account, {Bytes{1 << 20}, Bytes{0}, 2});
  EXPECT_FALSE(allocate(ledger, account, address(1), 10));
  auto const refusal = allocate(ledger, account, address(2), 10);
  ASSERT_TRUE(refusal);
  EXPECT_EQ(refusal->injected_at, 2);
  EXPECT_FALSE(refusal->request.short_by_at_least) << "it is not really short of anything";
  EXPECT_THAT(detail::refusal_text(*refusal), HasSubstr("(injected: allocation 2 of this trial)"));
  EXPECT_FALSE(allocate(ledger, account, address(2), 10));
  auto const tally = ledger.close_window(account, window);
  EXPECT_EQ(tally->granted, 2);
  EXPECT_EQ(tally->refused, 1);
  ledger.release(address(1));
  ledger.release(address(2));
}

TEST(MemoryLedger, CountsARequestThatTheMachineCouldNotServeAsRefusedAndRaisesNoPeak) {
  MemoryLedger ledger;
  auto& account = ledger.account(0);
  auto const window = ledger.open_window(account, {Bytes{1 << 20}, Bytes{0}});
  allocate(ledger, account, address(1), 5000, /*machine_has_it=*/false);
  EXPECT_EQ(account.live_of_window(window), Bytes{0});
  auto const tally = ledger.close_window(account, window);
  EXPECT_EQ(tally->peak.rounded, 0);
  EXPECT_EQ(tally->granted, 0);
  EXPECT_EQ(tally->refused, 1);
  EXPECT_EQ(tally->failed_request->requested, Bytes{5000});
  EXPECT_EQ(tally->free_at_failure, Bytes{1 << 20});
}

TEST(MemoryLedger, KeepsWhatAnEarlierWindowLeftAndFollowsItsFrees) {
  MemoryLedger ledger;
  auto& account = ledger.account(0);
  auto const first = ledger.open_window(account, {Bytes{4096}, Bytes{0}});
  allocate(ledger, account, address(1), 1024);
  ledger.close_window(account, first);
  EXPECT_TRUE(std::holds_alternative<detail::NotCounted>(account.reserve(100)));

  auto const second = ledger.open_window(account, {Bytes{4096}, Bytes{0}});
  EXPECT_TRUE(allocate(ledger, account, address(2), 3073));
  EXPECT_FALSE(allocate(ledger, account, address(2), 3072));
  EXPECT_EQ(account.live_of_window(first), Bytes{1024});
  EXPECT_EQ(account.live_of_window(second), Bytes{3072});
  ledger.release(address(1));
  EXPECT_EQ(account.live_of_window(first), Bytes{0});
  EXPECT_EQ(account.allocated(), Bytes{3072});
  account.forget_window(second);
  ledger.release(address(2));
  EXPECT_EQ(account.allocated(), Bytes{0});
}

TEST(MemoryLedger, ForgetsMemoryThatWasFreedBehindItsBackOnceTheAddressComesRound) {
  MemoryLedger ledger;
  auto& account = ledger.account(0);
  ledger.open_window(account, {Bytes{4096}, Bytes{0}});
  allocate(ledger, account, address(1), 4096 - 512);
  allocate(ledger, account, address(1), 512);
  EXPECT_EQ(account.allocated(), Bytes{512});
  ledger.release(address(1));
  EXPECT_EQ(account.allocated(), Bytes{0});
  EXPECT_FALSE(ledger.has_charges());
}

TEST(MemoryLedger, RefusesASecondWindow) {
  MemoryLedger ledger;
  auto const window = ledger.open_window(ledger.account(0), {Bytes{1024}, Bytes{0}});
  EXPECT_THROW(ledger.open_window(ledger.account(0), {Bytes{1024}, Bytes{0}}), std::logic_error);
  EXPECT_THROW(ledger.open_window(ledger.account(1), {Bytes{1024}, Bytes{0}}), std::logic_error) << "same thread";
  std::thread([&] { EXPECT_NO_THROW(ledger.open_window(ledger.account(1), {Bytes{1024}, Bytes{0}})); }).join();
  EXPECT_TRUE(ledger.close_window(ledger.account(0), window));
  EXPECT_FALSE(ledger.close_window(ledger.account(0), window)) << "once";
}

TEST(MemoryLedger, ChargesThreadsThatBelongNowhereToTheOnlyOpenWindow) {
  MemoryLedger ledger;
  auto& zero = ledger.account(0);
  auto& one = ledger.account(1);
  auto const window = ledger.open_window(zero, {Bytes{1024}, Bytes{0}});
  std::thread([&] { EXPECT_EQ(ledger.payer(1), &zero); }).join();
  std::thread([&] {
    ledger.belong_to(one);
    EXPECT_EQ(ledger.payer(1), nullptr) << "its own account has no open window";
    auto const other = ledger.open_window(one, {Bytes{1024}, Bytes{0}});
    EXPECT_EQ(ledger.payer(1), &one);
    std::thread([&] { EXPECT_EQ(ledger.payer(600), nullptr) << "whose it is cannot be known"; }).join();
    EXPECT_EQ(ledger.close_window(one, other)->unattributed_allocations, 1);
    EXPECT_EQ(ledger.payer(1), nullptr);
  }).join();
  EXPECT_EQ(ledger.payer(1), &zero);
  auto const tally = ledger.close_window(zero, window);
  EXPECT_EQ(tally->unattributed_allocations, 1);
  EXPECT_EQ(tally->unattributed_bytes, 1024);
  EXPECT_EQ(ledger.payer(1), nullptr);
}

/// The same rules, told by replaying the whole history at each question.
class ModelOfOneAccount {
 public:
  struct Live {
    std::size_t requested;
    std::int64_t rounded;
    int window;
  };
  struct Moment {
    Phase phase;
    std::int64_t requested;
    std::int64_t rounded;
  };

  void open(MemoryAccount::Terms const& next_terms) {
    terms = next_terms;
    ++window;
    is_open = true;
    phase = Phase::other;
    attempts = granted = refused = 0;
    history.clear();
    remember();
  }
  void enter(Phase next) {
    phase = next;
    remember();
  }
  std::int64_t sum_rounded() const {
    std::int64_t sum = terms.resident.count;
    for (auto const& [key, one] : live) { sum += one.rounded; }
    return sum;
  }
  std::int64_t sum_requested() const {
    std::int64_t sum = terms.resident.count;
    for (auto const& [key, one] : live) { sum += static_cast<std::int64_t>(one.requested); }
    return sum;
  }
  bool allows(std::size_t requested) {
    ++attempts;
    return attempts != terms.fail_allocation &&
           sum_rounded() + static_cast<std::int64_t>((requested + 511) / 512 * 512) <= terms.budget.count;
  }
  void add(std::uintptr_t key, std::size_t requested) {
    live[key] = {requested, static_cast<std::int64_t>((requested + 511) / 512 * 512), window};
    ++granted;
    remember();
  }
  void remember() { history.push_back({phase, sum_requested(), sum_rounded()}); }
  std::pair<std::int64_t, std::int64_t> peak_of(std::optional<Phase> wanted) const {
    std::pair<std::int64_t, std::int64_t> peak{0, 0};
    for (auto const& moment : history) {
      if (wanted && moment.phase != *wanted) { continue; }
      peak.first = std::max(peak.first, moment.requested);
      peak.second = std::max(peak.second, moment.rounded);
    }
    return peak;
  }
  std::int64_t live_of_window() const {
    std::int64_t sum = 0;
    for (auto const& [key, one] : live) { sum += one.window == window ? one.rounded : 0; }
    return sum;
  }

  MemoryAccount::Terms terms;
  bool is_open = false;
  int window = 0;
  Phase phase = Phase::other;
  std::int64_t attempts = 0;
  std::int64_t granted = 0;
  std::int64_t refused = 0;
  std::map<std::uintptr_t, Live> live;
  std::vector<Moment> history;
};

TEST(MemoryLedger, AgreesWithAModelOnRandomPrograms) {
  constexpr int programs = 3000;
  constexpr int operations = 80;
  std::int64_t refusals = 0;
  for (unsigned seed = 0; seed < programs; ++seed) {
    std::mt19937 random(seed);
    auto const up_to = [&](int n) { return std::uniform_int_distribution<int>(0, n)(random); };
    MemoryLedger ledger;
    auto& account = ledger.account(0);
    ModelOfOneAccount model;
    auto window = detail::kNoWindow;
    std::uintptr_t next_key = 1;
    for (int operation = 0; operation < operations; ++operation) {
      auto const choice = up_to(99);
      if (!model.is_open) {
        if (choice < 40) {
          MemoryAccount::Terms const terms{Bytes{1 + up_to(20'000)}, Bytes{up_to(3) == 0 ? up_to(8000) : 0},
                                           up_to(4) == 0 ? up_to(12) : 0};
          window = ledger.open_window(account, terms);
          model.open(terms);
        }
      } else if (choice < 6) {
        auto const tally = ledger.close_window(account, window);
        ASSERT_TRUE(tally);
        EXPECT_EQ(tally->granted, model.granted);
        EXPECT_EQ(tally->refused, model.refused);
        EXPECT_EQ(tally->peak.rounded, model.peak_of(std::nullopt).second);
        model.is_open = false;
      } else if (choice < 18) {
        auto const next = kAllPhases[static_cast<std::size_t>(up_to(5))];
        EXPECT_EQ(account.enter_phase(window, next), model.phase);
        model.enter(next);
      } else if (choice < 60) {
        auto const requested = static_cast<std::size_t>(1 + up_to(6000));
        bool const machine_has_it = up_to(19) != 0;
        auto const allowed = model.allows(requested);
        auto const free_before = std::max<std::int64_t>(0, model.terms.budget.count - model.sum_rounded());
        auto const refusal = allocate(ledger, account, address(next_key), requested, machine_has_it);
        ASSERT_EQ(!refusal, allowed) << "seed " << seed << ", operation " << operation;
        if (refusal) {
          EXPECT_EQ(refusal->free.count, free_before);
          EXPECT_EQ(refusal->request.phase, model.phase);
          ++refusals;
        }
        if (refusal || !machine_has_it) {
          ++model.refused;
        } else {
          model.add(next_key++, requested);
        }
      }
      if (choice >= 60 && !model.live.empty()) {
        auto const victim = std::next(model.live.begin(), up_to(static_cast<int>(model.live.size()) - 1));
        ledger.release(address(victim->first));
        model.live.erase(victim);
      }

      if (model.is_open) {
        auto const evidence = account.tally(window)->evidence();
        auto const [requested, rounded] = model.peak_of(std::nullopt);
        ASSERT_EQ(evidence.peaks.requested.count, requested) << "seed " << seed << ", operation " << operation;
        ASSERT_EQ(evidence.peaks.reserved.count, rounded) << "seed " << seed << ", operation " << operation;
        ASSERT_EQ(account.live_of_window(window).count, model.live_of_window());
        auto listed = evidence.phases.begin();
        for (auto const phase : kAllPhases) {
          auto const [phase_requested, phase_rounded] = model.peak_of(phase);
          if (phase_rounded == 0) { continue; }
          ASSERT_NE(listed, evidence.phases.end());
          ASSERT_EQ(listed->phase, phase);
          ASSERT_EQ(listed->peaks.requested.count, phase_requested);
          ASSERT_EQ(listed->peaks.allocated.count, phase_rounded);
          ++listed;
        }
        ASSERT_EQ(listed, evidence.phases.end());
      }
    }
    for (auto const& [key, one] : model.live) { ledger.release(address(key)); }
    ASSERT_EQ(account.allocated(), Bytes{0});
    ASSERT_FALSE(ledger.has_charges());
  }
  EXPECT_GT(refusals, 1000) << "else the budget was never tested";
}

}  // namespace
}  // namespace maxbatch::test
