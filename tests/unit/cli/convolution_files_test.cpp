#include "cli/convolution_files.hpp"

#include "cli/usage_error.hpp"
#include "support/remove_folder.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

namespace maxbatch::test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr char const* kOne = "forward 16,128,32,32 128,128,3,3 1,1 1,1 1,1 contiguous half any";
constexpr char const* kTwo = "backward_filter 2,3,32,32 64,3,7,7 2,2 3,3 1,1 channels_last float tf32";

class ConvolutionFiles : public testing::Test {
 protected:
  ConvolutionFiles() { std::filesystem::create_directories(folder_); }
  ~ConvolutionFiles() override { remove_folder(folder_.string()); }
  [[nodiscard]] std::filesystem::path file(std::string const& text) const {
    auto const path = folder_ / "questions.txt";
    std::ofstream(path) << text;
    return path;
  }

  std::filesystem::path const folder_ = testing::TempDir() + "convolution_files";
};

std::string complaint_about(std::filesystem::path const& path) {
  try {
    cli::read_questions("--questions", path);
  } catch (cli::UsageError const& error) { return error.what(); }
  return "none";
}

TEST_F(ConvolutionFiles, EachQuestionIsReadOnce) {
  auto const path = file(std::string("# a comment\n\n") + kTwo + '\n' + kOne + " 12 34\n" + kTwo + "\r\n");
  EXPECT_THAT(cli::read_questions("--questions", path), ElementsAre(kTwo, kOne));
}

TEST_F(ConvolutionFiles, ALineThatIsNoQuestionIsNamed) {
  EXPECT_THAT(complaint_about(file(std::string(kOne) + "\nforward 1,2\n")),
              HasSubstr("questions.txt, line 2: 'forward 1,2' is no question"));
  for (auto const* const wrong : {"sideways 16,128,32,32 128,128,3,3 1,1 1,1 1,1 contiguous half any",
                                  "forward 16,128,32 128,128,3,3 1,1 1,1 1,1 contiguous half any",
                                  "forward 16,128,32,32 128,128,3,3 1,1 1,1 1,1 contiguous quarter any",
                                  "forward 16,128,32,32 128,128,3,3 1,1 1,1 1,1 contiguous half some",
                                  "forward 16,-1,32,32 128,128,3,3 1,1 1,1 1,1 contiguous half any",
                                  "forward 16,128,32,32 128,128,3,3 1,1 1,1 1,1 diagonal half any"}) {
    EXPECT_THAT(complaint_about(file(wrong)), HasSubstr("is no question")) << wrong;
  }
  EXPECT_THAT(complaint_about(folder_ / "nothing"), HasSubstr("cannot be read"));
  EXPECT_THAT(complaint_about(folder_), HasSubstr("cannot be read"));
}

TEST_F(ConvolutionFiles, MergingKeepsWhatWasThereAndAddsEachOnce) {
  auto const path = folder_ / "merged.txt";
  EXPECT_EQ(cli::merge_questions("--questions", path, {kOne}), 1U);
  EXPECT_EQ(cli::merge_questions("--questions", path, {kOne, kTwo, kTwo}), 1U);
  EXPECT_EQ(cli::merge_questions("--questions", path, {}), 0U);
  EXPECT_THAT(cli::read_questions("--questions", path), ElementsAre(kTwo, kOne)) << "in alphabetical order";
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder_), {}), 1) << "nothing is left beside it";
}

TEST_F(ConvolutionFiles, AFileThatIsNoneOfQuestionsIsNotOverwritten) {
  auto const path = file("a letter to somebody\n");
  EXPECT_THROW(cli::merge_questions("--questions", path, {kOne}), cli::UsageError);
  EXPECT_EQ(cli::read_whole_file("--questions", path), "a letter to somebody\n");
  EXPECT_THROW(cli::replace_file("--questions", folder_ / "no" / "folder", ""), cli::UsageError);
}

TEST_F(ConvolutionFiles, TheTableLiesBesideTheProfile) {
  EXPECT_EQ(cli::table_beside("cards/nvidia-h200.card.txt"), "cards/nvidia-h200.convolutions.txt");
  EXPECT_EQ(cli::table_beside("mine.txt"), "mine.convolutions.txt");
  EXPECT_EQ(cli::table_beside("mine"), "mine.convolutions.txt");
}

}  // namespace
}  // namespace maxbatch::test
