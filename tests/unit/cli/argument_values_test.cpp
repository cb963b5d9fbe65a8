#include "cli/argument_values.hpp"

#include "cli/usage_error.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace maxbatch::cli {
namespace {

using testing::ElementsAre;

template <typename Call>
std::string complaint_of(Call const& call) {
  try {
    call();
  } catch (UsageError const& error) { return error.what(); }
  return "(nothing was thrown)";
}

TEST(ArgumentValues, AreRead) {
  EXPECT_EQ(read_count("--min", "8", 1), 8);
  EXPECT_EQ(read_count("--probe-above", "0", 0), 0);
  EXPECT_EQ(read_seconds("--max-seconds", "2.5"), 2.5);
  EXPECT_EQ(read_bytes("--budget", "1.5GiB", Bytes{1}), Bytes{3LL << 29});
  EXPECT_EQ(read_image_size("--image-size", "48x64"), (ImageSize{48, 64}));
  EXPECT_EQ(read_optimizer("--optimizer", "sgd"), OptimizerKind::sgd);
  EXPECT_EQ(read_precision("--precision", "bf16"), Precision::bf16);
  EXPECT_THAT(read_order("--order", "train,evaluate,train"),
              ElementsAre(StepMode::train, StepMode::evaluate, StepMode::train));
  EXPECT_THAT(split_at_commas("a,,b"), ElementsAre("a", "", "b"));
}

TEST(ArgumentValues, AreRefusedWithTheValueAndWhatToDo) {
  for (auto const* const text : {"", "x", "1.5", "0", "-3", "9223372036854775808", "8 ", "0x10"}) {
    EXPECT_EQ(complaint_of([&] { read_count("--min", text, 1); }),
              "--min '" + std::string(text) + "' is not a whole number of at least 1");
  }
  for (auto const* const text : {"", "0", "-1", "soon", "inf", "nan", "1s"}) {
    EXPECT_EQ(complaint_of([&] { read_seconds("--max-seconds", text); }),
              "--max-seconds '" + std::string(text) + "' is not a number of seconds above 0, such as 30 or 2.5");
  }
  EXPECT_EQ(
      complaint_of([] { read_bytes("--budget", "64 MiBs", Bytes{1}); }),
      "--budget '64 MiBs' is not an amount of memory; write a number with a unit, such as 10700MiB, 1.5GiB or 12GB");
  EXPECT_EQ(complaint_of([] { read_bytes("--budget", "0", Bytes{1}); }),
            "--budget '0' is too little; give at least 1 B");
  for (auto const* const text : {"64", "64x", "x64", "0x8", "64x64x3", "-8x8", "64 x 64"}) {
    EXPECT_EQ(complaint_of([&] { read_image_size("--image-size", text); }),
              "--image-size '" + std::string(text) + "' is not height x width in pixels, such as 64x64");
  }
  EXPECT_EQ(complaint_of([] { read_optimizer("--optimizer", "adamv"); }),
            "--optimizer 'adamv' is not known; did you mean 'adamw'? Choose one of adamw, "
            "adamw-foreach, adamw-fused, sgd, sgd-foreach, sgd-fused");
  EXPECT_EQ(complaint_of([] { read_precision("--precision", "double"); }),
            "--precision 'double' is not known; choose one of fp32, tf32, bf16, fp16");
  EXPECT_EQ(complaint_of([] { read_order("--order", "train,"); }),
            "--order '' is not known; choose one of train, evaluate");
}

}  // namespace
}  // namespace maxbatch::cli
