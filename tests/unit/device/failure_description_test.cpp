#include "device/telling_text.hpp"
#include <maxbatch/device/failure_classifier.hpp>

#include <c10/util/Exception.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <exception>
#include <new>
#include <stdexcept>
#include <string>

namespace maxbatch::test {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

TEST(DescribeFailure, TakesTypeAndText) {
  auto const failure = describe_failure(std::runtime_error("no luck"));
  ASSERT_EQ(failure.causes.size(), 1U);
  EXPECT_EQ(failure.causes[0].type, "std::runtime_error");
  EXPECT_EQ(failure.causes[0].text, "no luck");
  EXPECT_FALSE(failure.causes[0].is_out_of_memory_error);
  EXPECT_FALSE(failure.causes[0].is_bad_alloc);
  EXPECT_FALSE(failure.causes[0].accelerator_error_code);
}

TEST(DescribeFailure, TakesTheTextOfLibTorchWithoutItsBacktrace) {
  try {
    TORCH_CHECK(false, "sizes do not match");
  } catch (std::exception const& error) {
    EXPECT_THAT(error.what(), HasSubstr("Exception raised from")) << "else this test shows nothing";
    auto const failure = describe_failure(error);
    EXPECT_EQ(failure.causes.at(0).type, "c10::Error");
    EXPECT_EQ(failure.causes.at(0).text, "sizes do not match");
  }
}

TEST(DescribeFailure, CutsABacktraceThatSomebodyCopiedIntoATextOfTheirOwn) {
  auto const failure = describe_failure(
      std::runtime_error("loss failed: bad index\nException raised from CUDACachingAllocator.cpp:1 INTERNAL ASSERT"));
  EXPECT_EQ(failure.causes.at(0).text, "loss failed: bad index");
}

TEST(DescribeFailure, KnowsOutOfMemoryErrorsAndCodes) {
  try {
    TORCH_CHECK_WITH(OutOfMemoryError, false, "full");
  } catch (std::exception const& error) { EXPECT_TRUE(describe_failure(error).causes.at(0).is_out_of_memory_error); }
  c10::AcceleratorError const lost({"f", "file", 1}, 700, "gone");
  EXPECT_EQ(describe_failure(lost).causes.at(0).accelerator_error_code, 700);
}

TEST(DescribeFailure, TellsHostMemoryFromAnOverflowedArrayLength) {
  EXPECT_TRUE(describe_failure(std::bad_alloc()).causes.at(0).is_bad_alloc);
  EXPECT_FALSE(describe_failure(std::bad_array_new_length()).causes.at(0).is_bad_alloc);
}

TEST(DescribeFailure, FollowsNestedCausesToTheInnermost) {
  try {
    try {
      try {
        throw 42;
      } catch (...) { std::throw_with_nested(std::logic_error("layer 3")); }
    } catch (...) { std::throw_with_nested(std::runtime_error("epoch 1")); }
  } catch (std::exception const& error) {
    auto const failure = describe_failure(error);
    ASSERT_EQ(failure.causes.size(), 3U);
    EXPECT_EQ(failure.causes[0].text, "epoch 1");
    EXPECT_EQ(failure.causes[1].text, "layer 3");
    EXPECT_EQ(failure.causes[2].type, "int");
    EXPECT_EQ(failure.causes[2].text, "not a std::exception");
  }
}

TEST(DescribeFailure, ANestedExceptionMayHoldNothing) {
  struct Empty : std::runtime_error, std::nested_exception {
    Empty() : std::runtime_error("made outside of any catch block") {}
  };
  EXPECT_EQ(describe_failure(Empty()).causes.size(), 1U);
}

TEST(DescribeFailure, DoesNotFollowAChainForEver) {
  auto const deep = [](auto const& self, int depth) -> void {
    try {
      if (depth == 0) { throw std::runtime_error("the end"); }
      self(self, depth - 1);
    } catch (...) { std::throw_with_nested(std::runtime_error("level " + std::to_string(depth))); }
  };
  try {
    deep(deep, 100);
  } catch (std::exception const& error) { EXPECT_EQ(describe_failure(error).causes.size(), 16U); }
}

struct NoException {};

TEST(DescribeUnknownFailure, NamesTheTypeThatWasThrown) {
  try {
    throw NoException{};
  } catch (...) {
    auto const failure = describe_unknown_failure();
    ASSERT_EQ(failure.causes.size(), 1U);
    EXPECT_THAT(failure.causes[0].type, HasSubstr("NoException"));
    EXPECT_EQ(failure.causes[0].text, "not a std::exception");
  }
  EXPECT_EQ(describe_unknown_failure().causes.at(0).type, "unknown type") << "outside of a catch block";
}

TEST(TellingText, FindsTheMessageInTorchScriptsWrapping) {
  constexpr auto wrapped =
      "The following operation failed in the TorchScript interpreter.\n"
      "Traceback of TorchScript, serialized code (most recent call last):\n"
      "  File \"code/__torch__.py\", line 7, in forward\n"
      "    # CUDA out of memory. Tried to allocate is what this avoids\n"
      "    x = torch.mm(x, y)\n"
      "        ~~~~~~~~ <--- HERE\n"
      "RuntimeError: mat1 and mat2 shapes cannot be multiplied (2x3 and 4x5)\n";
  EXPECT_THAT(std::string(detail::without_script_traceback(wrapped)), StartsWith("mat1 and mat2"));
  EXPECT_EQ(detail::without_script_traceback("RuntimeError: as it is"), "RuntimeError: as it is");
}

TEST(TellingText, GivesTheFirstLineThatSaysSomething) {
  EXPECT_EQ(detail::first_line("\n  \n  one  \ntwo"), "one");
  EXPECT_EQ(detail::first_line("one"), "one");
  EXPECT_EQ(detail::first_line(" \n "), "");
}

TEST(TellingText, ShortensWithoutBreakingACharacter) {
  EXPECT_EQ(detail::shortened("12345678", 8), "12345678");
  EXPECT_EQ(detail::shortened("123456789", 8), "12345...");
  EXPECT_EQ(detail::shortened("1234\xC3\xA9"
                              "6789",
                              8),
            "1234...")
      << "e acute would be cut in half";
}

}  // namespace
}  // namespace maxbatch::test
