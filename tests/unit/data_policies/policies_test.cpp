// Programs on a dry card: data_dependent.cpp with the library loaded ahead of it, as the launcher does.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>

#include <sys/wait.h>

namespace maxbatch::test {
namespace {

using testing::HasSubstr;
using testing::Not;

struct Said {
  std::string text;
  int exit_code = 0;
};

Said run(std::string const& command) {
  Said said;
  auto* const pipe = popen((command + " 2>&1").c_str(), "r");
  std::array<char, 4096> part{};
  for (std::size_t count = 0; (count = fread(part.data(), 1, part.size(), pipe)) > 0;) {
    said.text.append(part.data(), count);
  }
  auto const status = pclose(pipe);
  said.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  return said;
}

/// `variables` as a shell writes them.
Said run_dry(std::string const& what, std::string const& variables = {}) {
  return run("env LD_PRELOAD=" MAXBATCH_DRY_CUDA " MAXBATCH_CARD=h200 MAXBATCH_DRY_REPORT=1 " + variables +
             " timeout 120 " MAXBATCH_DATA_DEPENDENT " " + what);
}

/// A file that ends with the test.
class RulesFile {
 public:
  explicit RulesFile(std::string const& rules)
      : path_(testing::TempDir() + testing::UnitTest::GetInstance()->current_test_info()->name() + ".rules") {
    std::ofstream(path_) << rules;
  }
  ~RulesFile() { std::filesystem::remove(path_); }
  RulesFile(RulesFile const&) = delete;
  RulesFile& operator=(RulesFile const&) = delete;

  [[nodiscard]] std::string variable() const { return "MAXBATCH_DRY_RULES=" + path_; }
  [[nodiscard]] std::string const& path() const { return path_; }

 private:
  std::string path_;
};

std::string lines_with(Said const& said, std::string const& beginning) {
  std::string lines;
  for (std::size_t at = 0; at < said.text.size();) {
    auto const end = std::min(said.text.find('\n', at), said.text.size());
    if (said.text.compare(at, beginning.size(), beginning) == 0) { lines += said.text.substr(at, end - at) + "\n"; }
    at = end + 1;
  }
  return lines;
}

TEST(DataPolicies, TheWorstCaseIsTheDefault) {
  auto const said = run_dry("counts");
  EXPECT_EQ(said.exit_code, 0);
  EXPECT_THAT(said.text, HasSubstr("nonzero 1000\nmasked_select 1000\nindex 1000\nunique 1000\nunique_dim 100\n"
                                   "unique_bool 2\nbincount 1000\nbincount_7 7\nrepeat_interleave 1000\n"
                                   "multinomial 3\nin_function 1000\ncoalesce 30\n"))
      << said.text;
  EXPECT_THAT(said.text, HasSubstr("data policies: worst\n"));
  EXPECT_THAT(said.text, HasSubstr("1000 of 1000 (worst)"));
}

TEST(DataPolicies, APolicyIsForEveryCount) {
  EXPECT_THAT(run_dry("counts", "MAXBATCH_DRY_POLICY=25%").text,
              HasSubstr("nonzero 250\nmasked_select 250\nindex 250\nunique 250\nunique_dim 25\nunique_bool 1\n"
                        "bincount 250\nbincount_7 7\nrepeat_interleave 250\nmultinomial 3\nin_function 250\n"
                        "coalesce 8\n"));
  EXPECT_THAT(run_dry("counts", "MAXBATCH_DRY_POLICY='at most 64'").text,
              HasSubstr("nonzero 64\nmasked_select 64\nindex 64\nunique 64\nunique_dim 64\nunique_bool 2\nbincount 64\n"
                        "bincount_7 64\nrepeat_interleave 64\nmultinomial 3\nin_function 64\ncoalesce 30\n"));
  // Of something there is at least one distinct value.
  EXPECT_THAT(run_dry("counts", "MAXBATCH_DRY_POLICY=none").text,
              HasSubstr("nonzero 0\nmasked_select 0\nindex 0\nunique 1\nunique_dim 1\nunique_bool 1\nbincount 1\n"
                        "bincount_7 7\nrepeat_interleave 0\nmultinomial 3\nin_function 0\ncoalesce 1\n"));
}

TEST(DataPolicies, RulesGoFirst) {
  RulesFile const rules(
      "nonzero in count_in_function = 5\n"
      "nonzero within masked_select = 6\n"
      "unique of [100, 10] = 9\n"
      "nonzero call 1 = 8\n");
  auto const said = run_dry("counts", "MAXBATCH_DRY_POLICY=none " + rules.variable());
  EXPECT_THAT(said.text, HasSubstr("masked_select 6\n"));
  EXPECT_THAT(said.text, HasSubstr("unique_dim 9\n"));
  EXPECT_THAT(said.text, HasSubstr("in_function 5\n")) << said.text;
  EXPECT_THAT(said.text, HasSubstr("unique 1\n"));
  EXPECT_THAT(said.text, HasSubstr("(rule, line 1)"));
  EXPECT_THAT(said.text, HasSubstr("after 4 rules of " + rules.path()));
}

TEST(DataPolicies, KnownScalarsKeepTheirValues) {
  auto const said = run_dry("values", "MAXBATCH_DRY_POLICY=none");
  EXPECT_THAT(said.text, HasSubstr("unknown 0\nany 0\nall 1\nequal 1\nfilled 65536\ndoubled 131072\nlist 6 3 6 2 3\n"
                                   "written_in_part 10\noverwritten 0\nsame_block 1 0\n"))
      << said.text;
}

TEST(DataPolicies, ALossScaleGrowsAsItWould) {
  EXPECT_THAT(lines_with(run_dry("scaler"), "found"),
              "found 0 scale 1024 tracker 1\nfound 0 scale 1024 tracker 2\nfound 0 scale 2048 tracker 0\n"
              "found 0 scale 2048 tracker 1\nfound 0 scale 2048 tracker 2\n");
}

TEST(DataPolicies, ThreadsStreamsAndCards) {
  EXPECT_THAT(run_dry("threads", "MAXBATCH_DRY_DEVICES=2").text,
              HasSubstr("right 400\nright 400\nright 400\nright 400\n"));
  EXPECT_THAT(run_dry("backward", "MAXBATCH_DRY_POLICY=10%").text, HasSubstr("gradient 1000\n"));
}

TEST(DataPolicies, TheAllocatorSeesWhatItWouldSeeOfThatCount) {
  auto const known = lines_with(run_dry("known_events"), "events");
  EXPECT_EQ(known, lines_with(run_dry("unknown_events", "MAXBATCH_DRY_POLICY='at most 300'"), "events"));
  EXPECT_NE(known, lines_with(run_dry("unknown_events", "MAXBATCH_DRY_POLICY='at most 299'"), "events"));
  auto const watched = lines_with(run_dry("training"), "events");
  EXPECT_THAT(watched, HasSubstr("events "));
  EXPECT_EQ(watched, lines_with(run_dry("training", "MAXBATCH_DRY_POLICY=off"), "events"));
}

TEST(DataPolicies, ALoopThatWaitsIsEndedAndALoopOverElementsIsNot) {
  auto const waits = run_dry("wait");
  EXPECT_EQ(waits.exit_code, 2) << waits.text;
  EXPECT_THAT(waits.text, HasSubstr("seems to wait for a value that never changes"));
  EXPECT_THAT(waits.text, HasSubstr("at app::wait_for_mask in "));
  RulesFile const rules("item in wait_for_mask = true, true, false, true in turn\n");
  auto const ends = run_dry("wait", rules.variable());
  EXPECT_EQ(ends.exit_code, 0) << ends.text;
  EXPECT_THAT(ends.text, HasSubstr("rounds "));
  EXPECT_THAT(run_dry("walk").text, HasSubstr("walked 300000\n"));
}

TEST(DataPolicies, OffIsZerosAndSaysSo) {
  auto const said = run_dry("scaler", "MAXBATCH_DRY_POLICY=off");
  EXPECT_THAT(said.text, HasSubstr("found 0 scale 0 tracker 0\n"));
  EXPECT_THAT(said.text, HasSubstr("data policies: off: zeros\n"));
}

TEST(DataPolicies, WhereTheLibraryIsNotThereIsSaidOnce) {
  // A copy of the dry card with nothing beside it.
  auto const folder = std::filesystem::path(testing::TempDir()) / "dry_card_alone";
  std::filesystem::create_directories(folder);
  auto const copy = folder / std::filesystem::path(MAXBATCH_DRY_CUDA).filename();
  std::filesystem::copy_file(MAXBATCH_DRY_CUDA, copy, std::filesystem::copy_options::overwrite_existing);
  auto const said = run("env LD_PRELOAD=" + copy.string() + " MAXBATCH_CARD=h200 " MAXBATCH_DATA_DEPENDENT " scaler");
  std::filesystem::remove_all(folder);
  EXPECT_THAT(said.text, HasSubstr("there are no data policies for LibTorch 2.11"));
  EXPECT_THAT(said.text, HasSubstr("found 0 scale 0 tracker 0\n"));
}

TEST(DataPolicies, MistakesAreSaidInOneSentence) {
  auto const policy = run_dry("counts", "MAXBATCH_DRY_POLICY=lots");
  EXPECT_EQ(policy.exit_code, 2);
  EXPECT_THAT(policy.text, HasSubstr("MAXBATCH_DRY_POLICY: 'lots' is no answer"));
  RulesFile const rules("nonzero = 1\nnonzro = 1\n");
  auto const rule = run_dry("counts", rules.variable());
  EXPECT_EQ(rule.exit_code, 2);
  EXPECT_THAT(rule.text, HasSubstr(rules.path() + ", line 2: 'nonzro' is no operation"));
}

TEST(DataPolicies, TheLauncherPassesThemOnAndReportsEveryPlace) {
  RulesFile const rules("nonzero in count_in_function = 5\n");
  auto const report = testing::TempDir() + "data_policies.json";
  auto const said = run(MAXBATCH_PROGRAM " dry-run --card h200 --data 25% --data-rules " + rules.path() + " --report " +
                        report + " -- " MAXBATCH_DATA_DEPENDENT " counts");
  ASSERT_EQ(said.exit_code, 0) << said.text;
  std::ifstream file(report);
  auto const json = nlohmann::json::parse(file);
  std::filesystem::remove(report);
  auto const data = json.at("processes").at(0).at("data");
  EXPECT_THAT(data.at("policies").get<std::string>(), testing::StartsWith("25%, after 1 rules of "));
  auto found = 0;
  for (auto const& site : data.at("sites")) {
    if (site.at("place").get<std::string>().find("count_in_function") == std::string::npos) { continue; }
    ++found;
    EXPECT_EQ(site.at("counted"), 5);
    EXPECT_EQ(site.at("out_of"), 1000);
    EXPECT_EQ(site.at("decided_by"), "rule, line 1");
  }
  EXPECT_EQ(found, 1);
  for (std::string const wrong : {"--data lots", "--data-rules /no/such/file"}) {
    auto const refused = run(MAXBATCH_PROGRAM " dry-run --card h200 " + wrong + " -- true");
    EXPECT_EQ(refused.exit_code, 2) << refused.text;
    EXPECT_EQ(std::count(refused.text.begin(), refused.text.end(), '\n'), 1) << refused.text;
    EXPECT_THAT(refused.text, HasSubstr(wrong.substr(0, wrong.find(' '))));
  }
}

}  // namespace
}  // namespace maxbatch::test
