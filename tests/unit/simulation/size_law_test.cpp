#include <maxbatch/simulation/size_law.hpp>

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

namespace maxbatch {
namespace {

constexpr ReductionHardware kH200{132, 2048};

TEST(ReductionScratch, IsWhatAnH200WasRecordedToAskFor) {
  struct Recorded {
    std::int64_t outputs;
    std::int64_t rows_per_sample;
    std::int64_t batch_size;
    std::int64_t bytes;
    std::int64_t counter_bytes;
  };
  // Swin-L at 5, 6, 8, 12 and 32 samples, ViT-B at 7 and 32, GPT-2 at 2 and 24.
  std::vector<Recorded> const recorded = {{768, 196, 5, 0, 24},
                                          {768, 196, 6, 7471104, 24},
                                          {3072, 196, 12, 58195968, 96},
                                          {2304, 196, 12, 43646976, 72},
                                          {192, 3136, 12, 57802752, 8},
                                          {384, 784, 12, 28901376, 12},
                                          {768, 3136, 6, 115605504, 24},
                                          {768, 3136, 8, 138412032, 24},
                                          {576, 3136, 8, 115605504, 20},
                                          {576, 3136, 12, 124747776, 20},
                                          {6144, 49, 32, 78643200, 192},
                                          {192, 3136, 32, 103809024, 8},
                                          {768, 197, 7, 8650752, 24},
                                          {3072, 197, 32, 138412032, 96},
                                          {3072, 512, 24, 138412032, 96},
                                          {2304, 512, 24, 139198464, 72},
                                          {768, 512, 1, 0, 24}};
  for (auto const& one : recorded) {
    ReductionScratch const scratch{one.outputs, one.rows_per_sample};
    EXPECT_EQ(scratch.bytes(one.batch_size, kH200), one.bytes) << one.outputs << " outputs at " << one.batch_size;
    EXPECT_EQ(scratch.counter_bytes(), one.counter_bytes) << one.outputs;
  }
}

TEST(ReductionScratch, IsRecognisedFromSizes) {
  auto const found = reduction_of({{6, 7471104}, {8, 9830400}}, 3072, 24, {196 * 3072}, kH200);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->outputs, 768);
  EXPECT_EQ(found->bytes(12, kH200), 14548992);

  auto const half = reduction_of({{4, 19267584}}, 384, 8, {3136 * 384}, kH200);  // fp16: 192 outputs
  ASSERT_TRUE(half);
  EXPECT_EQ(half->outputs, 192);
  EXPECT_EQ(half->rows_per_sample, 3136);

  // A full card's scratch does not tell the rows; a tensor does.
  auto const full = reduction_of({{8, 138412032}, {12, 138412032}}, 3072, 24, {3136 * 3072}, kH200);
  ASSERT_TRUE(full);
  EXPECT_EQ(full->rows_per_sample, 3136);

  EXPECT_FALSE(reduction_of({{6, 7471104 + 4}, {8, 9830400}}, 3072, 24, {}, kH200));
  EXPECT_FALSE(reduction_of({{6, 7471104}}, 3072, 28, {}, kH200)) << "other counters";
}

TEST(SizeLaw, Constant) {
  auto const law = size_law_of({{2, 4096}, {3, 4096}});
  EXPECT_EQ(law.kind, SizeLaw::Kind::constant);
  EXPECT_EQ(law.at(1000, kH200), 4096);
}

TEST(SizeLaw, AffineInWholeBytes) {
  auto const law = size_law_of({{2, 2007056}, {3, 3010576}});
  EXPECT_EQ(law.kind, SizeLaw::Kind::affine);
  EXPECT_EQ(law.at(24, kH200), 16 + 1003520 * 24);
  EXPECT_EQ(law.at(1, kH200), 16 + 1003520);
}

TEST(SizeLaw, JumpsAreNotPassedOffAsALaw) {
  EXPECT_EQ(size_law_of({{2, 100}, {4, 105}}).kind, SizeLaw::Kind::jumping) << "no whole bytes for a sample";
  EXPECT_EQ(size_law_of({{2, 100}, {3, 200}, {4, 250}}).kind, SizeLaw::Kind::jumping) << "not on one line";
  auto const falling = size_law_of({{2, 1000}, {3, 400}});
  EXPECT_EQ(falling.kind, SizeLaw::Kind::jumping);
  EXPECT_EQ(falling.at(50, kH200), 400) << "never below what was seen last";
}

TEST(SizeLaw, PassesThroughEverySizeThatItClaims) {
  for (std::int64_t a = 0; a < 40; a += 7) {
    for (std::int64_t b = 1; b < 30; b += 3) {
      auto const law = size_law_of({{2, a + 2 * b}, {5, a + 5 * b}, {11, a + 11 * b}});
      ASSERT_EQ(law.kind, SizeLaw::Kind::affine);
      for (std::int64_t n = 1; n < 50; ++n) { ASSERT_EQ(law.at(n, kH200), a + n * b); }
    }
  }
}

}  // namespace
}  // namespace maxbatch
