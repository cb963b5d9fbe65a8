#include "device/memory_ledger.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <random>
#include <thread>
#include <variant>
#include <vector>

namespace maxbatch::test {
namespace {

using detail::MemoryAccount;
using detail::MemoryLedger;
using detail::Refusal;
using detail::Reservation;

/// What several threads allocate and pass on to each other to free. Keys are real memory, so that addresses come round.
class Traffic {
 public:
  Traffic(MemoryLedger& ledger, std::int64_t budget) : ledger_(ledger), budget_(budget) {}

  void run(unsigned seed, int operations) {
    std::mt19937 random(seed);
    auto const up_to = [&](std::size_t n) { return std::uniform_int_distribution<std::size_t>(0, n)(random); };
    std::vector<Block> own;
    for (int i = 0; i < operations; ++i) {
      if (up_to(99) < 55 || own.empty()) {
        allocate(own, 1 + up_to(4000), up_to(199) == 0);
      } else {
        auto const at = up_to(own.size() - 1);
        std::swap(own[at], own.back());
        auto const block = own.back();
        own.pop_back();
        if (up_to(3) == 0) {
          hand_on(block);
        } else {
          free(block);
        }
      }
      if (up_to(7) == 0) { free_what_was_handed_on(); }
    }
    for (auto const& block : own) { free(block); }
  }

  void free_what_was_handed_on() {
    std::vector<Block> blocks;
    {
      std::lock_guard<std::mutex> const lock(mutex_);
      blocks.swap(handed_on_);
    }
    for (auto const& block : blocks) { free(block); }
  }

  std::int64_t most_seen() const { return most_seen_; }
  std::int64_t granted() const { return granted_; }
  std::int64_t refused() const { return refused_; }

 private:
  struct Block {
    void* key;
    std::int64_t rounded;
  };

  void allocate(std::vector<Block>& own, std::size_t requested, bool machine_fails) {
    auto* const account = ledger_.payer(requested);
    if (account == nullptr) { return; }
    auto const admission = account->reserve(requested);
    if (std::holds_alternative<Refusal>(admission)) {
      ++refused_;
      return;
    }
    auto const* const reservation = std::get_if<Reservation>(&admission);
    if (reservation == nullptr) { return; }
    if (machine_fails) {
      account->cancel(*reservation);
      ++refused_;
      return;
    }
    auto* const key = std::malloc(1);
    ledger_.charge(key, *account, *reservation);
    ++granted_;
    // After the charge, and off before its end: never more than what the ledger holds.
    auto const sum = sum_.fetch_add(reservation->rounded) + reservation->rounded;
    EXPECT_LE(sum, budget_);
    auto most = most_seen_.load();
    while (sum > most && !most_seen_.compare_exchange_weak(most, sum)) {}
    own.push_back({key, reservation->rounded});
  }

  void free(Block const& block) {
    sum_ -= block.rounded;
    ledger_.release(block.key);
    std::free(block.key);
  }

  void hand_on(Block const& block) {
    std::lock_guard<std::mutex> const lock(mutex_);
    handed_on_.push_back(block);
  }

  MemoryLedger& ledger_;
  std::int64_t const budget_;
  std::atomic<std::int64_t> sum_{0};
  std::atomic<std::int64_t> most_seen_{0};
  std::atomic<std::int64_t> granted_{0};
  std::atomic<std::int64_t> refused_{0};
  std::mutex mutex_;
  std::vector<Block> handed_on_;
};

constexpr int kThreads = 8;

TEST(MemoryLedgerStress, IsExactUnderManyThreads) {
  constexpr std::int64_t budget = 400 * 1024;
  MemoryLedger ledger;
  auto& account = ledger.account(3);
  auto const window = ledger.open_window(account, {Bytes{budget}, Bytes{0}});
  Traffic traffic(ledger, budget);
  std::atomic<bool> done{false};
  std::thread phases([&] {
    for (std::size_t i = 0; !done; ++i) {
      account.enter_phase(window, kAllPhases[i % kAllPhases.size()]);
      EXPECT_LE(account.tally(window)->peak.rounded, budget);
      std::this_thread::yield();
    }
  });
  std::vector<std::thread> threads;
  for (unsigned seed = 0; seed < kThreads; ++seed) {
    threads.emplace_back([&traffic, seed] { traffic.run(seed, 20'000); });
  }
  for (auto& thread : threads) { thread.join(); }
  done = true;
  phases.join();
  traffic.free_what_was_handed_on();

  EXPECT_EQ(account.allocated(), Bytes{0});
  EXPECT_EQ(account.live_of_window(window), Bytes{0});
  EXPECT_FALSE(ledger.has_charges());
  auto const tally = ledger.close_window(account, window);
  EXPECT_EQ(tally->granted, traffic.granted());
  EXPECT_EQ(tally->refused, traffic.refused());
  EXPECT_GT(tally->refused, 0) << "else the budget was never tested";
  EXPECT_LE(tally->peak.rounded, budget);
  EXPECT_GE(tally->peak.rounded, traffic.most_seen());
  EXPECT_LE(tally->peak.requested, tally->peak.rounded);
  std::int64_t largest_phase = 0;
  for (auto const& peak : tally->phase_peaks) { largest_phase = std::max(largest_phase, peak.rounded); }
  EXPECT_EQ(largest_phase, tally->peak.rounded);
}

TEST(MemoryLedgerStress, LosesNothingWhileWindowsOpenAndCloseUnderTraffic) {
  constexpr std::int64_t budget = 200 * 1024;
  MemoryLedger ledger;
  auto& account = ledger.account(0);
  Traffic traffic(ledger, budget);
  std::atomic<bool> done{false};
  std::int64_t granted = 0;
  std::int64_t refused = 0;
  std::thread trials([&] {
    while (!done) {
      auto const window = ledger.open_window(account, {Bytes{budget}, Bytes{0}});
      std::this_thread::yield();
      auto const tally = ledger.close_window(account, window);
      ASSERT_TRUE(tally);
      EXPECT_LE(tally->peak.rounded, budget);
      granted += tally->granted;
      refused += tally->refused;
      account.forget_window(window);
    }
  });
  std::vector<std::thread> threads;
  for (unsigned seed = 0; seed < kThreads; ++seed) {
    threads.emplace_back([&traffic, seed] { traffic.run(100 + seed, 20'000); });
  }
  for (auto& thread : threads) { thread.join(); }
  done = true;
  trials.join();
  traffic.free_what_was_handed_on();

  EXPECT_EQ(account.allocated(), Bytes{0});
  EXPECT_FALSE(ledger.has_charges());
  // A request that was admitted as the window closed is charged, and counted by no window.
  EXPECT_LE(granted, traffic.granted());
  EXPECT_LE(refused, traffic.refused());
}

TEST(MemoryLedgerStress, KeepsTheAccountsOfThreadsApart) {
  constexpr std::int64_t budget = 60 * 1024;
  MemoryLedger ledger;
  std::vector<std::thread> threads;
  for (int index = 0; index < kThreads; ++index) {
    threads.emplace_back([&ledger, index] {
      auto& account = ledger.account(index);
      Traffic traffic(ledger, budget);
      std::int64_t largest_peak = 0;
      for (unsigned trial = 0; trial < 20; ++trial) {
        auto const granted_before = traffic.granted();
        auto const window = ledger.open_window(account, {Bytes{budget}, Bytes{0}});
        traffic.run(trial, 500);
        traffic.free_what_was_handed_on();
        auto const tally = ledger.close_window(account, window);
        ASSERT_TRUE(tally);
        EXPECT_EQ(tally->granted, traffic.granted() - granted_before);
        largest_peak = std::max(largest_peak, tally->peak.rounded);
        EXPECT_EQ(account.live_of_window(window), Bytes{0});
        EXPECT_EQ(tally->unattributed_allocations, 0);
        account.forget_window(window);
      }
      EXPECT_EQ(largest_peak, traffic.most_seen()) << "one thread only, so equal";
      EXPECT_EQ(account.allocated(), Bytes{0});
    });
  }
  for (auto& thread : threads) { thread.join(); }
  EXPECT_FALSE(ledger.has_charges());
}

}  // namespace
}  // namespace maxbatch::test
