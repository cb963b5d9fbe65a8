#include "allocator_comparison.hpp"
#include "real_allocator.hpp"

#include <gtest/gtest.h>

#include <cstdlib>
#include <iostream>
#include <string>
#include <utility>
#include <vector>

namespace maxbatch::test {
namespace {

std::int64_t from_environment(char const* name, std::int64_t otherwise) {
  auto const* const text = std::getenv(name);
  return text == nullptr ? otherwise : std::atoll(text);
}

/// On a dry card in front of LibTorch, or on a real one.
class AllocatorContract : public testing::Test {
 protected:
  void SetUp() override {
    if (auto const why = RealAllocator::missing()) { GTEST_SKIP() << *why; }
  }
};

// MAXBATCH_CONTRACT_PROGRAMS says how many, MAXBATCH_CONTRACT_SEED where they begin.
TEST_F(AllocatorContract, RandomProgramsGoAsWithLibTorch) {
  auto const programs = from_environment("MAXBATCH_CONTRACT_PROGRAMS", 1000);
  auto const first = from_environment("MAXBATCH_CONTRACT_SEED", 1);
  ComparisonTotals totals;
  for (auto seed = first; seed < first + programs; ++seed) {
    auto const program = random_program(static_cast<std::uint64_t>(seed));
    auto const difference = compare(program, &totals);
    if (difference.empty()) { continue; }
    ASSERT_NE(compare(program), "") << "seed " << seed << ", " << difference << "\nbut only after what ran before:\n"
                                    << to_string(program);
    auto const smallest = shrink(program);
    FAIL() << "seed " << seed << ", " << difference << "\nas small as it gets, " << compare(smallest) << '\n'
           << to_string(smallest);
  }
  EXPECT_EQ(totals.programs, programs);
  EXPECT_GT(totals.refusals, programs / 20) << "programs that never run out of memory prove little";
  std::cout << totals.programs << " programs, " << totals.calls << " calls, " << totals.events << " events, "
            << totals.refusals << " refusals, " << totals.retries << " retries\n";
}

/// Programs written by hand, one for each rule that a random program might miss.
class Script {
 public:
  explicit Script(std::string settings = "") { program_.settings = std::move(settings); }

  /// The number of the block.
  int allocate(std::uint64_t bytes, int stream = 0) {
    AllocatorCall call;
    call.bytes = bytes;
    call.block = blocks_;
    call.stream = stream;
    program_.calls.push_back(call);
    return blocks_++;
  }
  Script& free(int block) { return add(AllocatorCall::Kind::free, block); }
  Script& record_stream(int block, int stream) { return add(AllocatorCall::Kind::record_stream, block, stream); }
  /// Of a block that is freed during the same capture.
  Script& record_stream_in_capture(int block, int stream) {
    record_stream(block, stream);
    program_.calls.back().flag = true;
    return *this;
  }
  Script& synchronise(int stream) { return add(AllocatorCall::Kind::synchronise, 0, stream); }
  Script& empty_cache() { return add(AllocatorCall::Kind::empty_cache); }
  Script& set_settings(std::string settings) {
    add(AllocatorCall::Kind::set_settings);
    program_.calls.back().settings = std::move(settings);
    return *this;
  }
  Script& limit_above_reserved(std::int64_t bytes) {
    add(AllocatorCall::Kind::set_limit);
    program_.calls.back().limited = true;
    program_.calls.back().above_reserved = bytes;
    return *this;
  }
  Script& pool(AllocatorCall::Kind kind, int pool, int stream = -1) {
    add(kind, 0, stream);
    program_.calls.back().pool = pool;
    program_.calls.back().flag = true;
    return *this;
  }
  Script& hold_events() {
    program_.holds_events = true;
    return *this;
  }

  AllocatorProgram const& program() const { return program_; }

 private:
  Script& add(AllocatorCall::Kind kind, int block = 0, int stream = 0) {
    AllocatorCall call;
    call.kind = kind;
    call.block = block;
    call.stream = stream;
    program_.calls.push_back(call);
    return *this;
  }

  AllocatorProgram program_;
  int blocks_ = 0;
};

constexpr std::uint64_t kMib = std::uint64_t{1} << 20;
using Kind = AllocatorCall::Kind;

void expect_same(Script const& script) {
  ComparisonTotals totals;
  EXPECT_EQ(compare(script.program(), &totals), "") << to_string(script.program());
  EXPECT_GT(totals.events, 0);
}

TEST_F(AllocatorContract, SizesAtTheEdges) {
  for (auto const* const settings :
       {"", "large_segment_size_mb:64", "max_split_size_mb:20", "roundup_power2_divisions:4",
        "roundup_power2_divisions:[1:8,256:2,>:4]", "expandable_segments:True"}) {
    Script script(settings);
    for (std::uint64_t const edge :
         {std::uint64_t{512}, std::uint64_t{1024}, kMib, 2 * kMib, 10 * kMib, 20 * kMib, 64 * kMib}) {
      for (int off = -2; off <= 2; ++off) {
        script.free(script.allocate(edge + static_cast<std::uint64_t>(off)));
        script.free(script.allocate(edge + 2048 + static_cast<std::uint64_t>(512 * off)));
        script.empty_cache();
      }
    }
    expect_same(script);
  }
}

TEST_F(AllocatorContract, ARestOfExactlyOneMebibyteIsNotSplitOff) {
  for (std::uint64_t const rest : {kMib - 512, kMib, kMib + 1, kMib + 512, kMib + 1024}) {
    Script script;
    auto const block = script.allocate(40 * kMib);
    script.free(block);
    auto const most = script.allocate(40 * kMib - rest);
    script.allocate(2 * kMib);
    script.free(most);
    script.allocate(40 * kMib - rest - 512);
    expect_same(script);
  }
}

TEST_F(AllocatorContract, TheLimitItselfIsAcceptedAndOneByteLessIsNot) {
  for (std::int64_t const off : {-1, 0, 1}) {
    for (auto const* const settings : {"", "expandable_segments:True", "garbage_collection_threshold:0.5"}) {
      Script script(settings);
      script.allocate(30 * kMib);
      script.limit_above_reserved(static_cast<std::int64_t>(20 * kMib) + off);
      script.allocate(5 * kMib);
      script.allocate(5 * kMib);
      script.allocate(30 * kMib);
      expect_same(script);
    }
  }
}

TEST_F(AllocatorContract, StreamsDoNotShareFreeBlocks) {
  Script script;
  auto const first = script.allocate(30 * kMib);
  script.free(first);
  script.allocate(30 * kMib, 1);
  script.allocate(30 * kMib, 0);
  auto const small = script.allocate(1000, 1);
  script.free(small);
  script.allocate(1000, 0);
  script.allocate(1000, 1);
  expect_same(script);
}

TEST_F(AllocatorContract, ABlockThatAnotherStreamUsesIsFreeWhenThatStreamIsDone) {
  Script script;
  script.hold_events();
  auto const block = script.allocate(30 * kMib);
  script.record_stream(block, 1);
  script.record_stream(block, 2);
  script.record_stream(block, 0);
  script.free(block);
  script.allocate(30 * kMib);  // another segment
  script.synchronise(1);
  script.allocate(30 * kMib);
  script.synchronise(2);
  script.allocate(30 * kMib);  // the block itself
  expect_same(script);
}

// PyTorch #189504: the flush waits for the block's event, but the pool is not searched again.
TEST_F(AllocatorContract, ABlockThatBecameFreeInTheFlushDoesNotSaveTheRequest) {
  Script script;
  script.hold_events();
  auto const first = script.allocate(30 * kMib);
  auto const split = script.allocate(12 * kMib);
  script.allocate(2 * kMib);
  script.record_stream(first, 1);
  script.record_stream(split, 1);
  script.limit_above_reserved(0);
  script.free(split);
  script.free(first);
  script.allocate(40 * kMib);
  script.allocate(12 * kMib);
  expect_same(script);
}

TEST_F(AllocatorContract, AFlushGivesBackWholeSegmentsOnlyLargeOnesFirst) {
  Script script;
  std::vector<int> blocks;
  for (auto const bytes : {kMib / 2, 3 * kMib, 40 * kMib, 12 * kMib, std::uint64_t{700}, 100 * kMib}) {
    blocks.push_back(script.allocate(bytes));
    blocks.push_back(script.allocate(bytes, 1));
  }
  script.limit_above_reserved(static_cast<std::int64_t>(60 * kMib));
  for (std::size_t i = 0; i < blocks.size(); i += 3) { script.free(blocks[i]); }
  script.allocate(150 * kMib);
  script.allocate(80 * kMib);
  for (auto const block : blocks) { script.free(block); }
  script.allocate(200 * kMib);
  script.empty_cache();
  expect_same(script);
}

TEST_F(AllocatorContract, OversizeBlocksAreNotSplitAndAreGivenBackOnTheirOwn) {
  Script script("max_split_size_mb:32,max_non_split_rounding_mb:24");
  auto const a = script.allocate(100 * kMib);
  auto const b = script.allocate(60 * kMib);
  auto const c = script.allocate(40 * kMib);
  script.free(a).free(b).free(c);
  script.limit_above_reserved(0);
  script.allocate(30 * kMib);   // too small for any of them
  script.allocate(37 * kMib);   // the third, with 3 MiB to spare
  script.allocate(90 * kMib);   // the first one goes
  script.allocate(200 * kMib);  // all go, and that is not enough
  expect_same(script);
}

TEST_F(AllocatorContract, GarbageCollectionTakesTheOldestFirst) {
  Script script("garbage_collection_threshold:0.6");
  std::vector<int> blocks;
  for (int i = 0; i < 8; ++i) { blocks.push_back(script.allocate((30 + static_cast<std::uint64_t>(i) * 4) * kMib)); }
  script.limit_above_reserved(static_cast<std::int64_t>(100 * kMib));
  for (auto const block : blocks) {
    script.free(block);
    script.free(script.allocate(500));
  }
  script.allocate(120 * kMib);
  script.allocate(64 * kMib);
  script.allocate(90 * kMib);
  expect_same(script);
}

TEST_F(AllocatorContract, ExpandableSegmentsAtTheEdgesOfTheirPages) {
  for (std::uint64_t const bytes : {20 * kMib - 512, 20 * kMib, 20 * kMib + 512, 40 * kMib - kMib, 40 * kMib + 1}) {
    Script script("expandable_segments:True");
    auto const a = script.allocate(bytes);
    auto const b = script.allocate(3 * kMib);
    auto const c = script.allocate(bytes);
    auto const small = script.allocate(kMib);
    auto const smaller = script.allocate(kMib - 512);
    script.free(a);
    script.empty_cache();  // the pages of `a` that nothing else touches
    script.free(small);
    script.empty_cache();
    script.allocate(bytes - 512);
    script.free(b).free(c).free(smaller);
    script.empty_cache();
    script.allocate(bytes);
    expect_same(script);
  }
}

TEST_F(AllocatorContract, ExpandableSegmentsUnderALimit) {
  Script script("expandable_segments:True");
  auto const first = script.allocate(25 * kMib);
  script.limit_above_reserved(static_cast<std::int64_t>(25 * kMib));
  auto const second = script.allocate(24 * kMib);
  script.allocate(26 * kMib);  // its pages would fit, and it is refused
  script.allocate(2 * kMib);
  script.free(first).free(second);
  script.allocate(60 * kMib);
  script.set_settings("expandable_segments:False");
  script.allocate(8 * kMib);
  script.allocate(500);
  script.set_settings("expandable_segments:True");
  script.allocate(8 * kMib);
  expect_same(script);
}

TEST_F(AllocatorContract, PrivatePoolsAreApartAndGoWhenNobodyUsesThem) {
  Script script;
  auto const outside = script.allocate(30 * kMib);
  script.free(outside);
  script.pool(Kind::begin_pool, 0);
  auto const inside = script.allocate(30 * kMib);
  auto const small = script.allocate(300);
  script.pool(Kind::end_pool, 0);
  script.free(inside).free(small);
  script.allocate(30 * kMib);
  script.empty_cache();  // not the pool: it is in use
  script.pool(Kind::release_pool, 0);
  script.empty_cache();
  script.pool(Kind::begin_pool, 1, 2);
  script.allocate(30 * kMib, 2);
  script.allocate(30 * kMib, 1);
  script.pool(Kind::end_pool, 1);
  expect_same(script);
}

TEST_F(AllocatorContract, NothingIsFlushedWhileACaptureIsInProgress) {
  Script script;
  auto const block = script.allocate(100 * kMib);
  script.free(block);
  script.limit_above_reserved(0);
  script.pool(Kind::begin_pool, 0, 1);
  script.allocate(50 * kMib, 1);  // no retry
  script.allocate(120 * kMib, 0);
  script.empty_cache();
  script.pool(Kind::end_pool, 0);
  script.allocate(120 * kMib, 0);
  script.allocate(50 * kMib, 1);
  expect_same(script);
}

TEST_F(AllocatorContract, WhatACaptureFreesWaitsForItsEnd) {
  for (bool const used_before : {false, true}) {
    Script script;
    script.hold_events();
    auto const outside = script.allocate(30 * kMib, 0);
    if (used_before) { script.record_stream(outside, 2); }
    script.pool(Kind::begin_pool, 0, 1);
    auto const inside = script.allocate(30 * kMib, 1);
    script.record_stream_in_capture(inside, 2).record_stream_in_capture(outside, 3);
    script.free(inside).free(outside);
    script.allocate(30 * kMib, 1);
    script.allocate(30 * kMib, 0);
    script.pool(Kind::end_pool, 0);
    script.allocate(30 * kMib, 0);  // the stream that the capture saw does not matter any more
    script.synchronise(2);
    script.allocate(30 * kMib, 0);
    expect_same(script);
  }
}

TEST_F(AllocatorContract, APoolThatMayBeUsedWhenOutOfMemoryIs) {
  Script script;
  script.pool(Kind::begin_pool, 0);
  auto const inside = script.allocate(60 * kMib);
  auto const small = script.allocate(3000);
  script.pool(Kind::end_pool, 0);
  script.free(inside).free(small);
  script.pool(Kind::use_on_oom, 0);
  auto const cached = script.allocate(40 * kMib);
  script.free(cached);
  script.limit_above_reserved(0);
  auto const rescued = script.allocate(50 * kMib);  // before anything is flushed
  script.allocate(1000);
  script.free(rescued);
  script.allocate(70 * kMib);
  expect_same(script);
}

TEST_F(AllocatorContract, APoolWithoutSplittingHandsOutWholeBlocks) {
  Script script;
  script.pool(Kind::begin_pool, 0);
  script.pool(Kind::no_split, 0);
  auto const inside = script.allocate(2 * kMib);
  script.allocate(512);
  script.free(inside);
  script.allocate(3 * kMib);
  script.pool(Kind::end_pool, 0);
  script.allocate(3 * kMib);
  expect_same(script);
}

TEST_F(AllocatorContract, WhatNeverReachesTheAllocator) {
  Script script;
  script.allocate(0);
  script.allocate(std::uint64_t{1} << 60);
  script.allocate(std::uint64_t{1} << 62);
  script.allocate(std::uint64_t{1} << 42);  // this does, and fails
  expect_same(script);
}

}  // namespace
}  // namespace maxbatch::test
