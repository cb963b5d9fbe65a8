#include "session.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <string>
#include <vector>

namespace maxbatch::test {
namespace {

using nlohmann::json;
using testing::HasSubstr;
using testing::IsEmpty;

Session run_built_in(std::vector<std::string> const& words) {
  static auto const models = models::ModelRegistry::built_in();
  return run(words, models);
}

std::vector<std::string> find_image(std::vector<std::string> const& more) {
  std::vector<std::string> words = {"find-image", "--model", "small_cnn", "--batch", "4", "--budget", "24MiB"};
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

// One process for all: loading LibTorch takes longer than the tests.
TEST(FindImageCommand, FindsTheLargestImageAndProvesIt) {
  auto const answer = run_built_in(find_image({"--format", "json"}));
  ASSERT_EQ(answer.code, 0) << answer.err;
  auto const found = json::parse(answer.out);
  EXPECT_EQ(found["batch_size"], 4);
  EXPECT_EQ(found["proof"], "bracketed");
  auto const side = found["largest_image"][0].get<int>();
  EXPECT_EQ(found["largest_image"][1], side);
  EXPECT_EQ(side % 32, 0);
  EXPECT_EQ(found["next_image"][0], side + 32);
  EXPECT_FALSE(found.contains("largest_batch_size"));
  EXPECT_FALSE(found["trials"][0].contains("batch_size"));
  EXPECT_EQ(found["trials"][0]["image"], json({32, 32}));

  auto const exactly = [&](int pixels) {
    return run_built_in(
               find_image({"--smallest-side", std::to_string(pixels), "--largest-side", std::to_string(pixels)}))
        .code;
  };
  EXPECT_EQ(exactly(side), 0);
  EXPECT_EQ(exactly(side + 32), 3) << "nothing fits";

  auto const text = run_built_in(find_image({"--aspect", "2", "--stride", "16"}));
  EXPECT_EQ(text.code, 0);
  EXPECT_THAT(text.out, HasSubstr("largest image ......."));
  EXPECT_THAT(text.out, HasSubstr("16x32"));
}

TEST(FindImageCommand, SaysWhatIsWrongBeforeAnyWork) {
  auto const complains = [](std::vector<std::string> const& words, std::string const& text) {
    auto const answer = run_built_in(words);
    EXPECT_EQ(answer.code, 2);
    EXPECT_THAT(answer.out, IsEmpty());
    EXPECT_THAT(answer.err, HasSubstr(text));
  };
  complains({"find-image", "--model", "small_transformer"}, "takes no images");
  complains({"find-image", "--model", "small_cn"}, "did you mean 'small_cnn'?");
  complains(find_image({"--aspect", "0.5"}), "--aspect is 0.5");
  complains(find_image({"--stride", "0"}), "--stride");
  complains(find_image({"--smallest-side", "64", "--largest-side", "32"}), "64");
  complains(find_image({"--device", "rtx-2090"}), "--device takes cpu");
}

}  // namespace
}  // namespace maxbatch::test
