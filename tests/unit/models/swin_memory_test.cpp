// A training step of our Swin-L needs no more of a dry H200 than timm's needed of the card.
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <array>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <sstream>
#include <string>

namespace maxbatch::test {
namespace {

nlohmann::json steps_of_swin_l(std::int64_t batch_size) {
  auto const command = std::string(MAXBATCH_PROGRAM) + " dry-run --card h200 -- " MAXBATCH_SWIN_STEP " --batch " +
                       std::to_string(batch_size) + " 2>/dev/null";
  std::string text;
  auto* const pipe = popen(command.c_str(), "r");
  std::array<char, 4096> part{};
  for (std::size_t count = 0; (count = fread(part.data(), 1, part.size(), pipe)) > 0;) {
    text.append(part.data(), count);
  }
  EXPECT_EQ(pclose(pipe), 0) << text;
  auto const start = text.find("{\"side\"");
  EXPECT_NE(start, std::string::npos) << text;
  return start == std::string::npos ? nlohmann::json()
                                    : nlohmann::json::parse(text.substr(start, text.find('\n', start) - start));
}

TEST(SwinMemory, PeaksAreAtMostThoseOfTimm) {
  std::ifstream file(MAXBATCH_TEST_DATA_DIR "/swin_large_peaks.csv");
  int compared = 0;
  for (std::string line; std::getline(file, line);) {
    std::istringstream numbers(line);
    std::int64_t batch_size = 0;
    std::int64_t allocated = 0;
    std::int64_t reserved = 0;
    char comma = 0;
    if (!(numbers >> batch_size >> comma >> allocated >> comma >> reserved)) { continue; }  // comments, headings
    auto const ours = steps_of_swin_l(batch_size);
    ASSERT_TRUE(ours.is_object());
    EXPECT_TRUE(ours.at("fits").get<bool>());
    EXPECT_LE(ours.at("allocated_peak").get<std::int64_t>(), allocated) << batch_size;
    EXPECT_LE(ours.at("reserved_peak").get<std::int64_t>(), reserved) << batch_size;
    // And a step did run: weights, gradients and the optimizer's two moments are there.
    EXPECT_GT(ours.at("allocated_peak").get<std::int64_t>(), std::int64_t{4} * 4 * 196532476) << batch_size;
    ++compared;
  }
  EXPECT_GE(compared, 7);
}

}  // namespace
}  // namespace maxbatch::test
