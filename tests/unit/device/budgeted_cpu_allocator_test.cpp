#include "device/budgeted_cpu_allocator.hpp"

#include <c10/core/Allocator.h>
#include <c10/util/Exception.h>

#include <gtest/gtest.h>

#include <cstdint>
#include <cstdlib>
#include <new>
#include <stdexcept>

namespace maxbatch::test {
namespace {

using detail::BudgetedCpuAllocator;
using detail::MemoryLedger;

/// An allocator whose context is not its data: there is no raw interface.
class OpaqueUpstream final : public c10::Allocator {
 public:
  c10::DataPtr allocate(std::size_t size) override {
    if (fails) { throw std::runtime_error("upstream has nothing"); }
    ++live_blocks;
    auto* const context = new Context{size != 0 ? std::malloc(size) : nullptr};
    return {context->data, context, &free_context, c10::Device(c10::kCPU)};
  }
  bool is_simple_data_ptr(c10::DataPtr const& memory) const override { return memory.get_deleter() == &free_context; }
  void copy_data(void* to, void const* from, std::size_t size) const override { default_copy_data(to, from, size); }

  bool fails = false;
  static inline int live_blocks = 0;

 private:
  struct Context {
    void* data;
  };
  static void free_context(void* context) {
    auto* const block = static_cast<Context*>(context);
    std::free(block->data);
    delete block;
    --live_blocks;
  }
};

class OpaqueUpstreamTest : public ::testing::Test {
 protected:
  OpaqueUpstream upstream;
  MemoryLedger ledger;
  BudgetedCpuAllocator allocator{upstream, ledger};
  detail::MemoryAccount& account = ledger.account(0);
};

TEST_F(OpaqueUpstreamTest, MemoryThatIsNotChargedPassesThroughAsItIs) {
  EXPECT_EQ(allocator.raw_deleter(), nullptr);
  auto const memory = allocator.allocate(100);
  EXPECT_TRUE(upstream.is_simple_data_ptr(memory));
  EXPECT_TRUE(allocator.is_simple_data_ptr(memory));
}

TEST_F(OpaqueUpstreamTest, ChargedMemoryIsWrappedAndFreedThroughTheUpstream) {
  ledger.open_window(account, {Bytes{1024}, Bytes{0}});
  {
    auto const memory = allocator.allocate(600);
    ASSERT_NE(memory.get(), nullptr);
    EXPECT_FALSE(allocator.is_simple_data_ptr(memory));
    EXPECT_EQ(account.allocated(), Bytes{1024});
    EXPECT_THROW(allocator.allocate(1), c10::OutOfMemoryError);
    EXPECT_EQ(OpaqueUpstream::live_blocks, 1);
    auto const nothing = allocator.allocate(0);
    EXPECT_TRUE(upstream.is_simple_data_ptr(nothing)) << "no bytes, no charge";
    EXPECT_THROW(allocator.allocate(1), c10::OutOfMemoryError);
  }
  EXPECT_EQ(account.allocated(), Bytes{0});
  EXPECT_EQ(OpaqueUpstream::live_blocks, 0);
  auto const copy = allocator.clone("12345678", 8);
  EXPECT_EQ(static_cast<char const*>(copy.get())[7], '8');
}

TEST_F(OpaqueUpstreamTest, AFailingUpstreamCostsNothingAndIsCounted) {
  auto const window = ledger.open_window(account, {Bytes{1024}, Bytes{0}});
  upstream.fails = true;
  EXPECT_THROW(allocator.allocate(1024), std::runtime_error) << "its own exception, unchanged";
  upstream.fails = false;
  EXPECT_NO_THROW(allocator.allocate(1024));
  EXPECT_EQ(account.tally(window)->refused, 1);
  EXPECT_EQ(account.tally(window)->granted, 1);
}

/// Breaks c10::Allocator's contract: attaches another deleter than it announces.
class LyingUpstream final : public c10::Allocator {
 public:
  c10::DataPtr allocate(std::size_t size) override {
    auto* const data = std::malloc(size);
    return {data, data, &std::free, c10::Device(c10::kCPU)};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &announced; }
  void copy_data(void* to, void const* from, std::size_t size) const override { default_copy_data(to, from, size); }

 private:
  static void announced(void*) {}
};

using BudgetedCpuAllocatorDeathTest = ::testing::Test;

TEST(BudgetedCpuAllocatorDeathTest, NoticesAnUpstreamThatBreaksItsPromise) {
  // In a child: an allocator of raw memory writes to the globals of the process's own.
  EXPECT_EXIT(
      {
        LyingUpstream upstream;
        MemoryLedger ledger;
        BudgetedCpuAllocator allocator(upstream, ledger);
        try {
          allocator.allocate(10);
        } catch (c10::Error const&) { std::_Exit(0); }
        std::_Exit(1);
      },
      ::testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace maxbatch::test
