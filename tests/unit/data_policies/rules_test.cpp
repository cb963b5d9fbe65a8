#include "data_policies/rules.hpp"

#include "data_policies/words.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <stdexcept>
#include <string>

namespace maxbatch::dry {
namespace {

/// By definition, and slowly.
bool fits_by_brute_force(std::string_view pattern, std::string_view text) {
  if (pattern.empty()) { return text.empty(); }
  if (pattern.front() == '*') {
    for (std::size_t skipped = 0; skipped <= text.size(); ++skipped) {
      if (fits_by_brute_force(pattern.substr(1), text.substr(skipped))) { return true; }
    }
    return false;
  }
  return !text.empty() && text.front() == pattern.front() && fits_by_brute_force(pattern.substr(1), text.substr(1));
}

TEST(DataRules, PatternsFitAsBruteForceSays) {
  std::mt19937_64 random(3);
  auto const any_text = [&](std::string const& letters, std::size_t most) {
    std::string text(std::uniform_int_distribution<std::size_t>(0, most)(random), ' ');
    for (auto& letter : text) {
      letter = letters[std::uniform_int_distribution<std::size_t>(0, letters.size() - 1)(random)];
    }
    return text;
  };
  for (int i = 0; i < 20000; ++i) {
    auto const pattern = any_text("ab*", 6);
    auto const text = any_text("ab", 8);
    EXPECT_EQ(fits_pattern(pattern, text), fits_by_brute_force(pattern, text)) << pattern << " / " << text;
  }
}

Question masks_of_a_sampler() {
  Question question;
  question.operation = "nonzero";
  question.shape = {2000, 4};
  question.within = {"aten::index", "aten::masked_select"};
  question.place = {
      {"/usr/lib/python3/site-packages/torchvision/models/detection/_utils.py", 44, "Sampler.__call__"},
      {"/usr/lib/python3/site-packages/torchvision/models/detection/roi_heads.py", 605, "RoIHeads.subsample"},
      {"/home/somebody/train.py", 12, "<module>"}};
  question.call = 4;
  return question;
}

bool line_fits(std::string const& line) { return fits(read_rules(line + " = 1", "rules").at(0), masks_of_a_sampler()); }

TEST(DataRules, EachConditionMustFit) {
  for (auto const* const line : {"nonzero",
                                 "non*",
                                 "*",
                                 "nonzero at _utils.py",
                                 "nonzero at detection/_utils.py:44",
                                 "nonzero at *utils.py:44",
                                 "nonzero in subsample",
                                 "nonzero in RoIHeads.subsample",
                                 "nonzero in Sampler.*",
                                 "nonzero in <module>",
                                 "nonzero within index",
                                 "nonzero within masked_select",
                                 "nonzero within aten::index",
                                 "nonzero of [2000, 4]",
                                 "nonzero of [*, 4]",
                                 "nonzero of [*,*]",
                                 "nonzero call 5",
                                 "nonzero call 3-5",
                                 "nonzero call 2-",
                                 "nonzero at _utils.py:44 in subsample within index of [*, 4] call 5"}) {
    EXPECT_TRUE(line_fits(line)) << line;
  }
  for (auto const* const line :
       {"unique", "nonzero at roi_heads.py", "nonzero at utils.py", "nonzero at _utils.py:45", "nonzero in sample",
        "nonzero in Heads.subsample", "nonzero within unique", "nonzero of [2000]", "nonzero of []",
        "nonzero of [*, 5]", "nonzero call 4", "nonzero call 6-", "nonzero in subsample call 1-4"}) {
    EXPECT_FALSE(line_fits(line)) << line;
  }
}

TEST(DataRules, FunctionsOfCppAreFoundByTheirName) {
  Question question;
  question.operation = "item";
  question.place = {{"/opt/train", 0, "app::Trainer::operator()"}, {"/opt/train", 0, "main"}};
  EXPECT_TRUE(fits(read_rules("item in operator() = true", "r").at(0), question));
  EXPECT_TRUE(fits(read_rules("item in Trainer::* = true", "r").at(0), question));
  EXPECT_TRUE(fits(read_rules("item at train in main = true", "r").at(0), question));
  EXPECT_FALSE(fits(read_rules("item in rainer::operator() = true", "r").at(0), question));
  question.place.clear();
  EXPECT_FALSE(fits(read_rules("item in main = true", "r").at(0), question)) << "nobody is known to have called";
  EXPECT_TRUE(fits(read_rules("item = true", "r").at(0), question));
}

TEST(DataRules, TheFirstThatFitsDecides) {
  auto const rules =
      read_rules("# masks\n\nunique = 3\nnonzero of [*] = 5  # of vectors\nnon* = 7\nnonzero = 9\n", "r");
  ASSERT_EQ(rules.size(), 4U);
  auto const* const rule = find_rule(rules, masks_of_a_sampler());
  ASSERT_NE(rule, nullptr);
  EXPECT_EQ(rule->number, 5);
  EXPECT_EQ(rule->answer.amount, 7);
  EXPECT_EQ(find_rule({}, masks_of_a_sampler()), nullptr);
}

std::string refusal_of(std::string const& text) {
  try {
    read_rules(text, "my.rules");
  } catch (std::invalid_argument const& error) { return error.what(); }
  return "taken";
}

TEST(DataRules, RefusesWithFileLineAndWord) {
  struct Wrong {
    char const* line;
    char const* word;
  };
  for (auto const& [line, word] :
       {Wrong{"nonzero", "no '= ANSWER'"}, Wrong{"nonzro = 1", "'nonzro' is no operation"},
        Wrong{"nonzero = lots", "'lots'"}, Wrong{"nonzero near x = 1", "'near' is no condition"},
        Wrong{"nonzero at = 1", "FILE[:LINE]"}, Wrong{"nonzero at x.py:twelve = 1", "'twelve'"},
        Wrong{"nonzero at x.py:0 = 1", "'0'"}, Wrong{"nonzero of 4 = 1", "'4' is no shape"},
        Wrong{"nonzero of [a] = 1", "'a'"}, Wrong{"nonzero of [4 = 1", "'[4' is no shape"},
        Wrong{"nonzero call 0 = 1", "'0'"}, Wrong{"nonzero call 5-3 = 1", "'5-3' ends before"},
        Wrong{"nonzero in = 1", "a function"}, Wrong{" = 1", "operation"}}) {
    EXPECT_THAT(refusal_of(std::string("item = 1\n\n") + line + "\n"),
                testing::AllOf(testing::StartsWith("my.rules, line 3: "), testing::HasSubstr(word)))
        << line;
  }
  EXPECT_THAT([] { read_rules_file("/no/such/file"); },
              testing::ThrowsMessage<std::invalid_argument>(testing::HasSubstr("/no/such/file cannot be read")));
}

TEST(DataRules, NoTextCrashesTheReader) {
  std::mt19937_64 random(4);
  std::vector<std::string> const words = {"nonzero", "item",    "*",     "at",     "in", "of", "call", "within",
                                          "[",       "]",       "[*,4]", "a.py:3", ":",  "=",  "25%",  "worst",
                                          ",",       "in turn", "#",     "\n",     "5-", "-"};
  auto read = 0;
  for (int i = 0; i < 20000; ++i) {
    std::string text;
    auto const count = std::uniform_int_distribution<>(0, 10)(random);
    for (int word = 0; word < count; ++word) {
      text += words[std::uniform_int_distribution<std::size_t>(0, words.size() - 1)(random)];
      if (random() % 4 != 0) { text += ' '; }
    }
    try {
      read_rules(text, "r");
      ++read;
    } catch (std::invalid_argument const& error) { EXPECT_THAT(error.what(), testing::StartsWith("r, line ")); }
  }
  EXPECT_GT(read, 100);
}

TEST(DataRules, ThoseThatShipCanBeRead) {
  EXPECT_GE(built_in_rules().size(), 3U);
  EXPECT_GE(read_rules_file(MAXBATCH_RULES_DIR "/torchvision_detection.rules").size(), 5U);
}

}  // namespace
}  // namespace maxbatch::dry
