#include <maxbatch/bytes.hpp>

#include <gtest/gtest.h>

namespace maxbatch {
namespace {

using namespace literals;

TEST(Bytes, HeadroomNeverWraps) {
  EXPECT_EQ(headroom(10_MiB, 4_MiB), 6_MiB);
  EXPECT_EQ(headroom(4_MiB, 10_MiB), 0_B);
}

TEST(Bytes, PrintsAsMemoryToolsDo) {
  EXPECT_EQ(to_string(10700_MiB), "10,700 MiB");
  EXPECT_EQ(to_string(1_GiB), "1,024 MiB");
  EXPECT_EQ(to_string(512_B), "512 B");
  EXPECT_EQ(to_string(1536_B), "1.5 KiB");
  EXPECT_EQ(to_string(0_B), "0 B");
  EXPECT_EQ(to_string(Bytes{(3 << 20) + (1 << 19)}), "3.5 MiB");
}

TEST(Bytes, ReadsWhatPeopleWrite) {
  EXPECT_EQ(parse_bytes("10700MiB"), 10700_MiB);
  EXPECT_EQ(parse_bytes("1.5 GiB"), Bytes{3LL << 29});
  EXPECT_EQ(parse_bytes("512"), 512_B);
  EXPECT_EQ(parse_bytes("12 GB"), Bytes{12'000'000'000});
  EXPECT_EQ(parse_bytes("10,700 mib"), 10700_MiB);
  EXPECT_EQ(parse_bytes("0"), 0_B);
}

TEST(Bytes, RefusesWhatIsNoAmount) {
  for (auto const* text :
       {"", "MiB", "ten", "-5MiB", "5 parsecs", "1.2.3MiB", "9999999999999999999", "9223372036854775807K"}) {
    EXPECT_FALSE(parse_bytes(text).has_value()) << text;
  }
}

}  // namespace
}  // namespace maxbatch
